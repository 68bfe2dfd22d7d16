# triple: powerpc64le-unknown-linux-gnu
# The TOC pointer, to which no symbol of the object refers.
	.text
	.globl main
main:	beqa absolute
	blr
	.section .toc,"aw",@progbits
	.globl entry
entry:	.quad main
# link: --define absolute=0x7ff0
# jitlink-check: .TOC. - entry = 0x8000
# jitlink-check: (*{4}main) = 0x41827ff2
