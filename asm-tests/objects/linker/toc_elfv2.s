# triple: powerpc64-unknown-linux-musl
# Big endian, with two entry points: a call to the second, and one that leaves by a stub and restores the TOC pointer.
	.abiversion 2
	.text
	.globl main
	.type main, @function
main:	addis 2, 12, .TOC.-main@ha
	addi 2, 2, .TOC.-main@l
	.localentry main, .-main
	bl main
	nop
	bl outside
	nop
	beqa absolute
	blr
	.size main, .-main
	.section .toc,"aw",@progbits
	.globl entry
entry:	.quad main
# link: --define absolute=0x7ff0 --define outside=0x123456789abc
# jitlink-check: .TOC. - entry = 0x8000
# jitlink-check: *{8}entry = main
# jitlink-check: (*{4}(main + 8)) = 0x48000001
# jitlink-check: (*{4}(main + 12)) = 0x60000000
# jitlink-check: (*{4}(main + 16)) = 0x48000001 | (stub_addr(toc_elfv2.o, outside) - main - 16)
# jitlink-check: (*{4}(main + 20)) = 0xe8410018
# jitlink-check: (*{4}(main + 24)) = 0x41827ff2
# jitlink-check: (*{4}stub_addr(toc_elfv2.o, outside)) = 0xf8410018
# jitlink-check: (*{4}(stub_addr(toc_elfv2.o, outside) + 4)) = 0x3d800000
# jitlink-check: (*{4}(stub_addr(toc_elfv2.o, outside) + 20)) = 0x618c9abc
# jitlink-check: (*{4}(stub_addr(toc_elfv2.o, outside) + 28)) = 0x4e800420
