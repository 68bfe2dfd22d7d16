# triple: x86_64-unknown-linux-gnu
# Another part of what bounds.s bounds.
	.data
	.byte 1
	.section guards,"aw",@progbits
	.balign 4
	.globl third
third:	.long 3
	.data
	.balign 8
	.globl more_places
more_places:
	.quad __start_guards, __stop_guards
# jitlink-check: (*{8}(more_places + 8)) - (*{8}more_places) = 4
