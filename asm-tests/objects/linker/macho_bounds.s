# triple: x86_64-apple-macos13
# Where a section and a segment of Mach-O begin and end.
	.section __TEXT,__text
	.globl _main
_main:	ret
	.section __DATA,__hooks
	.globl _hook
_hook:	.long 5
	.section __DATA,__data
	.p2align 3
	.globl _places
_places:
	.quad section$start$__DATA$__hooks, section$end$__DATA$__hooks
	.quad segment$start$__DATA, segment$end$__DATA
	.zerofill __DATA,__bss,_zeros,16,3
# jitlink-check: *{8}_places = _hook
# jitlink-check: *{8}(_places + 8) = _hook + 4
# jitlink-check: *{8}(_places + 16) = _hook
# jitlink-check: *{8}(_places + 24) = _zeros + 16
