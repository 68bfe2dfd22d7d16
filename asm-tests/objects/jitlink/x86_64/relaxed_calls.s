# Calls and jumps through the global offset table to targets in reach, which are relaxed. llvm-jitlink 19 leaves them above 4 GiB, and below
# writes the target's address where its distance belongs.
# link: --base 0x500000000 --relax
# link: --define ahead=0x57fff0000 --define behind=0x480010000
# llvm-jitlink: differs

	.macro insn name, text:vararg
	.globl \name
\name:	\text
	.size \name, . - \name
	.endm

	.text
	insn main, ret
	insn call_behind, call *behind@GOTPCREL(%rip)
	insn jump_main, jmp *main@GOTPCREL(%rip)
	insn jump_ahead, jmp *ahead@GOTPCREL(%rip)
	insn call_main, call *main@GOTPCREL(%rip)

# jitlink-check: *{2}call_behind = 0xe867
# jitlink-check: *{4}(call_behind + 2) = (behind - call_behind - 6)[31:0]
# jitlink-check: *{1}jump_main = 0xe9
# jitlink-check: decode_operand(jump_main, 0) = main - next_pc(jump_main)
# jitlink-check: *{1}(jump_main + 5) = 0x90
# jitlink-check: decode_operand(jump_ahead, 0) = ahead - next_pc(jump_ahead)
# jitlink-check: *{2}call_main = 0xe867
# jitlink-check: *{4}(call_main + 2) = (main - call_main - 6)[31:0]
