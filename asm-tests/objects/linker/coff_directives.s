# triple: x86_64-pc-windows-msvc
# What an object tells the linker: a name that stands for another, and one that has to be there.
# link: --define __ImageBase=0xff00000 --define wanted=0x1234
	.text
	.globl main
main:	ret
	.globl fallback
fallback:	ret
	.data
	.globl places
places:	.quad missing
	.globl rva
rva:	.long main@IMGREL
	.section .drectve,"yn"
	.ascii " /DEFAULTLIB:\"libcmt\" /alternatename:missing=fallback -INCLUDE:wanted"
# jitlink-check: *{8}places = fallback
# jitlink-check: *{4}rva = main - 0xff00000
# jitlink-check: __ImageBase = 0xff00000
