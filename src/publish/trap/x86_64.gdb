set confirm off
set language c
starti
catch signal SIGTRAP
condition $bpnum $_siginfo.si_code == 128 && *(unsigned char *)$pc == 0xcc
commands
silent
set $pc = $pc + 1
signal SIGTRAP
end
