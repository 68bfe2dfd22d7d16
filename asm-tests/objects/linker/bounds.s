# triple: x86_64-unknown-linux-gnu
# Where sections of one name begin and end, over two objects; names that no object refers to.
# link: asm-tests/objects/linker/bounds_more.o --define told=0x12345678
	.text
	.globl main
main:	ret

	.data
	.byte 1
	.section guards,"aw",@progbits
	.balign 4
first:	.long 1, 2
	.section numbers,"a",@progbits
	.quad 7

	.data
	.balign 8
	.globl places
places:	.quad __start_guards, __stop_guards
	.globl weak_places
	.weak __start_numbers, __stop_numbers
weak_places:
	.quad __start_numbers, __stop_numbers
	.weak __start_nothing
	.hidden __stop_guards
	.globl nothing
nothing:
	.quad __start_nothing

# jitlink-check: *{8}places = first
# jitlink-check: *{8}(places + 8) = first + 12
# jitlink-check: *{8}(more_places + 8) = first + 12
# jitlink-check: *{4}((*{8}(more_places + 8)) - 4) = 3
# jitlink-check: (*{8}(weak_places + 8)) - (*{8}weak_places) = 8
# jitlink-check: *{8}nothing = 0
# jitlink-check: told = 0x12345678
# jitlink-check: _GLOBAL_OFFSET_TABLE_ & 7 = 0
