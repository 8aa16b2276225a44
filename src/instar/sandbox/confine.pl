# What `landlock.apply` and `landlock.main` do, in a language that most machines have and that starts in 2 ms, not 12.
#
#   perl -e TEXT NUMBERS FD PROGRAM ARG...
#   perl -e TEXT NUMBERS "serve FD"
#
# reads the policy (landlock.encode) from the descriptor FD, confines itself and becomes the program. NUMBERS are what
# differs between machines: the system calls prctl, capget, capset, prlimit64 and execve, the flag O_NOFOLLOW, and the
# calls recvmsg, dup3 and setsid. Exit code 126: the policy could not be applied whole, and nothing was run; 127: the
# program could not be started.
#
# To serve is to stay and start programs, each in a fork that confines itself further. Standard input is then a
# SEQPACKET socket (instar.process.launcher). To us: a dict in marshal's format, `id`, `argv`, `env`, `cwd`, `policy`,
# with three descriptors that become 0, 1 and 2. From us, in JSON: {"hello": ...} once; from each fork {"id"} before
# anything of the program ran, and {"id", "start"} when it did not start; from the parent {"id", "status"}: an exit
# code, or the negative number of the signal. When the socket is closed, what runs is killed, and this ends.

my ($data, $at) = ("", 0);
my ($policy, %asked, $prctl, $execve, $capget, $capset, $prlimit, $nofollow, $recvmsg, $dup3, $setsid);
# Of a process that starts programs: the socket, and in a fork the call's number.
our ($control, $number);

sub take {
    my ($count) = @_;
    $at + $count <= length $data or die "the policy is cut short\n";
    $at += $count;
    return substr $data, $at - $count, $count;
}

sub number {
    my ($digits, $value) = (unpack("l<", take(4)), 0);
    $digits >= 0 or die "the policy has a negative number\n";
    $value |= unpack("v", take(2)) << 15 * $_ for 0 .. $digits - 1;
    return $value;
}

# A byte that is no UTF-8 stands in the policy as half a surrogate pair, as in Python's own names of files.
sub text {
    my $text = take(unpack "V", take(4));
    $text =~ s/\xed([\xb2\xb3])([\x80-\xbf])/chr((ord($1) & 3) << 6 | ord($2) & 63)/ge;
    return $text;
}

# Python's marshal format 2. A dict becomes a list: key, value, key, value.
sub value {
    my $kind = take(1);
    return unpack "l<", take(4) if $kind eq "i";
    return number() if $kind eq "l";
    return text() if $kind eq "u" or $kind eq "t";
    return take(unpack "V", take(4)) if $kind eq "s";
    return undef if $kind eq "N";
    return [map { value() } 1 .. unpack "V", take(4)] if $kind eq "[" or $kind eq "(";
    $kind eq "{" or die "the policy cannot be read\n";
    my @pairs;
    until (substr($data, $at, 1) eq "0") { push @pairs, value(), value() }
    $at++;
    return \@pairs;
}

# The buffers of a call are the caller's own variables: the kernel writes into them.
sub call {
    my ($what, $number) = (shift, shift);
    my $result = syscall $number, @_;
    $result >= 0 or die "$what: $!\n";
    return $result;
}

sub limit {
    my ($prlimit, $name, $limit) = @_;
    my %known = (CPU => 0, FSIZE => 1, DATA => 2, STACK => 3, CORE => 4, NPROC => 6, NOFILE => 7, MEMLOCK => 8, AS => 9);
    exists $known{$name} && $limit >= 0 or die "no limit $name of $limit\n";
    my ($now, $none) = (pack("Q2", 0, 0), 0);
    call("prlimit", $prlimit, 0, $known{$name}, $none, $now);
    my $hard = (unpack "Q2", $now)[1];
    $limit = $hard if $hard < $limit;
    call("prlimit $name", $prlimit, 0, $known{$name}, pack("Q2", $limit, $limit), $none);
}

sub drop {
    my ($prctl, $capget, $capset, @dropped) = @_;
    # What this kernel lacks is not there.
    syscall $prctl, 24, $_, 0, 0, 0 for map { $_ + 0 } @dropped;
    my ($header, $sets) = (pack("LL", 0x20080522, 0), "\0" x 24);
    call("capget", $capget, $header, $sets);
    my @sets = unpack "L6", $sets;
    # Effective, permitted and inheritable, 32 bits each, then the same again for the upper half.
    for my $one (@dropped) {
        $sets[($one >> 5) * 3 + $_] &= ~(1 << ($one & 31)) & 0xffffffff for 0 .. 2;
    }
    $sets = pack "L6", @sets;
    call("capset", $capset, $header, $sets);
}

sub restrict {
    my ($nofollow, $fs, $net, $scope, $rules) = @_;
    my $version = syscall 444, 0, 0, 1;
    $version >= 1 or die "this kernel has no Landlock, or it is switched off\n";
    my $known = (1 << 13) - 1;
    $known |= 1 << 13 if $version >= 2;
    $known |= 1 << 14 if $version >= 3;
    $known |= 1 << 15 if $version >= 5;
    $fs &= $known;
    $net = 0 if $version < 4;
    $scope = 0 if $version < 6;
    return unless $fs || $net || $scope;
    my $ruleset = call("landlock_create_ruleset", 444, pack("Q3", $fs, $net, $scope), 24, 0);
    for my $rule (@$rules) {
        my ($rights, $paths) = @$rule;
        allow($ruleset, $_, $rights & $fs, $nofollow) for @$paths;
    }
    call("landlock_restrict_self", 446, $ruleset, 0);
}

# A path that is gone or a link gets no right: what was meant is not there.
sub allow {
    my ($ruleset, $path, $rights, $nofollow) = @_;
    sysopen my $beneath, $path, 010000000 | $nofollow or return;
    my $kind = (stat $beneath)[2] & 0170000;
    # A rule on a file names rights of files alone.
    $rights &= 1 | 2 | 4 | 1 << 14 | 1 << 15 if $kind != 0040000;
    return if !$rights || $kind == 0120000;
    my $result = syscall 445, $ruleset, 1, pack("QL", $rights, fileno $beneath), 0;
    # Sockets, pipes and files of some kernel file systems cannot carry a rule: they get no right.
    $result >= 0 || $kind != 0040000 or die "landlock_add_rule $path: $!\n";
}

sub apply {
    ($prctl, $capget, $capset, $prlimit, $execve, $nofollow, $recvmsg, $dup3, $setsid)
        = map { $_ + 0 } split /,/, shift @ARGV;
    open $policy, "+<&=", shift @ARGV or die "its policy: $!\n";
    sysseek $policy, 0, 0;
    1 while sysread $policy, $data, 1 << 20, length $data;
    # F_SETFD, FD_CLOEXEC: it is open until the program has started.
    fcntl $policy, 2, 1 or die "its policy: $!\n";
    %asked = @{value()};
    confine(fileno $policy);
}

# Do what was asked; of the descriptors from 3 on only `kept` stays open.
sub confine {
    my ($kept) = @_;
    my @limits = @{$asked{limits}};
    limit($prlimit, splice @limits, 0, 2) while @limits;
    call("no_new_privs", $prctl, 38, 1, 0, 0, 0);
    drop($prctl, $capget, $capset, @{$asked{drop}}) if @{$asked{drop}} && $> == 0;
    restrict($nofollow, @asked{qw(fs net scope rules)}) if $asked{fs} || $asked{net} || $asked{scope};
    # close_range: no other descriptor is the program's. A path above may lead through one.
    syscall 436, 3, $kept - 1, 0 if $kept > 3;
    syscall 436, $kept + 1, 0xffffffff, 0;
    if (length $asked{seccomp}) {
        my $program = pack "S x![Q] P", length($asked{seccomp}) / 8, $asked{seccomp};
        call("seccomp", $prctl, 22, 2, $program, 0, 0);
    }
    not defined $asked{cwd} or chdir $asked{cwd} or die "$asked{cwd}: $!\n";
}

sub report {
    if ($number) {
        my ($failure, $file, $runs, $line) = ($_[0] =~ /^start (\d+) (\d) (\d) (.*)/);
        return tell_of(sprintf '"start":[%d,%d,%d,"%s"]', $failure, $file, $runs, $line);
    }
    sysseek $policy, 0, 2;
    syswrite $policy, $_[0];
}

# Fork, and stay as the parent: whoever started this process sees a signal only as an exit code.
sub stay {
    # Not dumpable: the program, which is not so, cannot open the descriptors of this process.
    call("prctl", $prctl, 4, 0, 0, 0, 0);
    my $parent = $$;
    my $child = fork;
    defined $child or die "fork: $!\n";
    if (!$child) {
        # A signal at the parent's death does not pass to a fork.
        call("prctl", $prctl, 1, 9, 0, 0, 0);
        getppid == $parent or kill 9, $$;
        return;
    }
    syscall 436, 0, 2, 0;
    my $waited = waitpid $child, 0;
    $waited = waitpid $child, 0 while $waited < 0 && $! == 4;
    exit 126 if $waited != $child;
    report("signal " . ($? & 127)) if $? & 127;
    exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
}

sub seen {
    my ($name, $line) = ($_[0], "");
    return "0 0 " unless $name =~ m{/} && -f $name;
    my $runs = -x _ ? 1 : 0;
    if (open my $file, "<", $name) { sysread $file, $line, 256 }
    $line =~ s/\n.*/\n/s;
    return "1 $runs " . unpack "H*", $line;
}

# Not `exec`: a file with no first line that names an interpreter would be run by a shell.
sub become {
    my ($name, @words) = ($ARGV[0], @ARGV);
    my @pairs = $asked{env} ? map { "$$_[0]=$$_[1]" } @{$asked{env}} : map { "$_=$ENV{$_}" } keys %ENV;
    my ($path) = map { /^PATH=(.*)/s ? $1 : () } @pairs;
    my @folders = split /:/, $path // "/bin:/usr/bin", -1;
    my @files = $name =~ m{/} ? $name : map { $_ eq "" ? $name : "$_/$name" } @folders;
    my ($argv, $envp, $failure) = (pack("p*", @words, undef), pack("p*", @pairs, undef), 2);
    # Perl ignores it for itself.
    $SIG{FPE} = "DEFAULT";
    for my $file (@files) {
        syscall $execve, $file, $argv, $envp;
        # ENOENT and ENOTDIR: what stands in another folder may say more.
        $failure = $! + 0 if @files == 1 || $failure == 2 && $! != 20;
    }
    report("start $failure " . seen($name));
    $! = $failure;
}

sub tell_of {
    syswrite $control, '{"id":' . join(",", $number, @_) . "}";
}

# A message and its descriptors; of no bytes when nobody is there to send one. The kernel writes into what `vec` made.
sub receive {
    my ($bytes, $rights) = ("", "");
    vec($bytes, (1 << 18) - 1, 8) = 0;
    vec($rights, 31, 8) = 0;
    my $parts = pack "P Q", $bytes, length $bytes;
    my $header = pack "Q Q P Q P Q Q", 0, 0, $parts, 1, $rights, length $rights, 0;
    # MSG_CMSG_CLOEXEC
    my $size = call("recvmsg", $recvmsg, fileno $control, $header, 0x40000000);
    my ($length, undef, undef, @found) = unpack "Q l l l3", $rights;
    return (substr($bytes, 0, $size), $length < 16 ? () : @found[0 .. ($length - 16) / 4 - 1]);
}

sub serve {
    # F_DUPFD_CLOEXEC: what is started must find neither the socket nor a way back to it.
    my $socket = fcntl STDIN, 1030, 3 or die "its socket: $!\n";
    open $control, "+<&=", $socket and open STDIN, "<", "/dev/null" or die "its socket: $!\n";
    $0 = "instar-launcher";
    chdir "/" or die "/: $!\n";
    close $policy;
    my %calls;
    watch(\%calls, $$, 0);
    %calls = ();
    syswrite $control, '{"hello":{"refused":null,"watched":[]}}';
    while (1) {
        my $ready = "";
        vec($ready, $_, 1) = 1 for $socket, keys %calls;
        next if select($ready, undef, undef, undef) < 0;
        ended(delete $calls{$_}) for grep { vec $ready, $_, 1 } keys %calls;
        hear(\%calls) if vec $ready, $socket, 1;
    }
}

# pidfd_open: a descriptor that can be read when the process has ended. No signal is needed to wait for one.
sub watch {
    my ($calls, $pid, $id) = @_;
    my $descriptor = call("pidfd_open", 434, $pid, 0);
    open my $handle, "<&=", $descriptor or die "pidfd: $!\n";
    $$calls{$descriptor} = [$handle, $pid, $id];
}

sub ended {
    my (undef, $pid, $id) = @{$_[0]};
    waitpid($pid, 0) == $pid or die "waitpid: $!\n";
    local $number = $id;
    tell_of('"status":' . ($? & 127 ? -($? & 127) : $? >> 8));
}

sub hear {
    my ($calls) = @_;
    my @given;
    ($data, @given) = receive();
    if ($data eq "") {
        kill "-KILL", $$_[1] for values %$calls;
        exit 0;
    }
    $at = 0;
    my %request = @{value()};
    my $parent = $$;
    my $child = fork;
    if (defined $child && !$child) {
        $number = $request{id};
        eval { begin(\%request, $parent, @given); 1 } or exit 126;
        become();
        exit 127;
    }
    syscall 436, $_, $_, 0 for @given;
    return watch($calls, $child, $request{id}) if $child;
    # It did not begin.
    local $number = $request{id};
    tell_of('"status":126');
}

# In a fork: its session, streams, folder and confinement. Nothing is told of one that fails here: it did not begin.
sub begin {
    my ($request, $parent, @given) = @_;
    @given == 3 or die "descriptors are missing\n";
    call("setsid", $setsid);
    call("prctl", $prctl, 1, 9, 0, 0, 0);
    getppid == $parent or kill 9, $$;
    call("dup3", $dup3, $given[$_], $_, 0) for 0 .. 2;
    my ($env, $cwd, $argv);
    ($data, $env, $cwd, $argv) = @$request{qw(policy env cwd argv)};
    $at = 0;
    %asked = @{value()};
    chdir $cwd or die "$cwd: $!\n";
    confine(fileno $control);
    $asked{env} = $env;
    @ARGV = @$argv;
    # One that nobody hears was given up: the program may run elsewhere by now.
    tell_of() or die "nobody is there\n";
}

my $serves = $ARGV[1] =~ s/^serve //;
eval { apply(); $serves ? serve() : $asked{stay} && stay(); 1 } or do {
    print STDERR "instar: not started, it could not be confined: $@";
    exit 126;
};
become();
print STDERR "instar: cannot start $ARGV[0]: $!\n";
exit 127;
