# Loads from the global offset table of targets in reach, which are relaxed: llvm-jitlink always does it.
# link: --base 0x500000000 --relax
# link: --define ahead=0x57fff0000 --define behind=0x480010000 --define far=0x7fff12345678

	.macro insn name, text:vararg
	.globl \name
\name:	\text
	.size \name, . - \name
	.endm

	.text
	insn main, ret
	insn load, movq ahead@GOTPCREL(%rip), %rax
	insn load_behind, movq behind@GOTPCREL(%rip), %r15
	insn load_main, movq main@GOTPCREL(%rip), %rcx
	insn load_far, movq far@GOTPCREL(%rip), %rax
	insn call_far, call *far@GOTPCREL(%rip)
	insn jump_far, jmp *far@GOTPCREL(%rip)

# jitlink-check: *{1}(load + 1) = 0x8d
# jitlink-check: decode_operand(load, 4) = ahead - next_pc(load)
# jitlink-check: *{1}(load_behind + 1) = 0x8d
# jitlink-check: decode_operand(load_behind, 4) = behind - next_pc(load_behind)
# jitlink-check: decode_operand(load_main, 4) = main - next_pc(load_main)
# jitlink-check: *{1}(load_far + 1) = 0x8b
# jitlink-check: decode_operand(load_far, 4) = got_addr(relaxed.o, far) - next_pc(load_far)
# jitlink-check: decode_operand(call_far, 3) = got_addr(relaxed.o, far) - next_pc(call_far)
# jitlink-check: decode_operand(jump_far, 3) = got_addr(relaxed.o, far) - next_pc(jump_far)
