# shellcheck shell=bash
# ./x doctor: what this machine lacks.

x_doctor() {
    local cpus=/sys/devices/system/cpu governor memory_kib locked_kib is_ready=yes
    governor=$(cat $cpus/cpu0/cpufreq/scaling_governor 2>/dev/null || echo "none shown")
    memory_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)
    locked_kib=$(ulimit -l | sed 's/unlimited/999999999/')
    say "$(machine), $(distribution)"
    echo "needed now:"
    needed "C compiler" "Rust links with it" "./x demo installs it" can_link
    needed "git" "fetches and commits changes" "./x demo installs it" have git
    needed "Rust $sources_version or newer" "builds Paceline" "./x demo installs it" has_rust
    needed "2 GiB free memory" "release builds" "close other programs, or a larger machine" \
        [ "$memory_kib" -ge 2097152 ]
    check "2 cores" "comparing several cores with one" "a larger machine" [ "$(nproc)" -ge 2 ]
    echo "for live traffic, more cores, and more than demo and test:"
    check "4 cores or more" "strategies on several cores" "a larger machine" [ "$(nproc)" -ge 4 ]
    check "4 GiB free memory" "large flow tables" "a larger machine" [ "$memory_kib" -ge 4194304 ]
    check "huge pages" "tables and packet buffers with few TLB misses" "sudo sysctl vm.nr_hugepages=512" \
        grep -q 'HugePages_Total: *[1-9]' /proc/meminfo
    check "transparent huge pages" "the same, unreserved" "/sys/kernel/mm/transparent_hugepage/enabled: madvise" \
        grep -qE '\[(always|madvise)\]' /sys/kernel/mm/transparent_hugepage/enabled
    check "Linux 5.11 or newer" "AF_XDP with busy polling" "a newer kernel" sorted 5.11 "$(uname -r)"
    check "AF_XDP in the kernel" "live traffic past the kernel's stack" "a kernel with XDP_SOCKETS" kernel_has CONFIG_XDP_SOCKETS
    check "BPF file system" "run --on-death block" "sudo mount -t bpf bpf /sys/fs/bpf" \
        [ "$(stat -f -c %T /sys/fs/bpf 2>/dev/null)" = bpf_fs ]
    check "TUN interfaces" "run --host chain: a router's packets to this machine" "sudo modprobe tun" [ -c /dev/net/tun ]
    check "BTF" "one XDP program for many kernels" "a kernel with DEBUG_INFO_BTF" [ -e /sys/kernel/btf/vmlinux ]
    check "CAP_NET_ADMIN" "attaching XDP programs to interfaces" "run as root" capable 12
    check "CAP_BPF" "loading XDP programs" "run as root" capable 39
    check "CAP_NET_RAW" "sockets on interfaces, of both kinds" "run as root" capable 13
    check "64 MiB locked memory" "AF_XDP packet buffers" "ulimit -l unlimited, or CAP_IPC_LOCK" can_lock "$locked_kib"
    check "Landlock" "runs write where they must, and nowhere else" "Linux 5.13 with SECURITY_LANDLOCK" has_landlock
    check "seccomp" "runs are refused calls that they never make" "a kernel with SECCOMP_FILTER" grep -q '^Seccomp_filters' /proc/self/status
    check "isolated cores" "latency free of the scheduler" "isolcpus= on the kernel's command line" \
        grep -q . $cpus/isolated
    check "steady clock" "figures that repeat" "cpupower frequency-set -g performance; governor now: $governor" \
        [ "$governor" = performance ]
    check "hardware counters" "cycles and cache misses per packet" "bare metal, or a PMU for the guest" \
        ls -d /sys/bus/event_source/devices/cpu*
    check "tshark" "looking into captures" "apt-get install tshark" have tshark
    check "shellcheck" "./x lint of the shell scripts" "apt-get install shellcheck" have shellcheck
    check "cargo-fuzz" "./x fuzz" "./x fuzz installs it" have cargo-fuzz
    check "cargo-mutants" "./x mutants" "./x mutants installs it" have cargo-mutants
    check "valgrind" "./x bench instructions" "./x bench instructions installs it" have valgrind
    check "clang" "AF_XDP: compiles crates/live/bpf; the rest builds without" "./x demo installs it" have clang
    check "ip and ping" "tests in network namespaces" "apt-get install iproute2 iputils-ping" can_ping
    check "iperf3" "its tests through bridge and router; skipped without it" "apt-get install iperf3" have iperf3
    check "node and npm" "the page is built anew by a test; skipped without" "./x web installs them" can_build_page
    check "chromium" "the page is looked at by a test; skipped without" "apt-get install chromium" have chromium
    check "promtool" "alert rules are tried by a test; skipped without" "apt-get install prometheus" have promtool
    check "dig" "one test more of names through a NAT" "apt-get install dnsutils" have dig
    echo "interfaces, for live traffic:"
    interfaces
    echo "  a router's chain guards the hosts behind it; packets to this machine's own addresses go past it, whatever it denies,"
    echo "  unless it is run with --host chain: docs/live.md"
    echo "ready for demo and test: $is_ready"
}

# Drivers that are known to take XDP programs themselves, and to have zero copy in some kernels. A run says at its start
# what it got.
native_xdp=' bnxt_en ena gve hv_netvsc i40e iavf ice igb igc ixgbe ixgbevf mlx4_en mlx5_core mvneta mvpp2 nfp qede sfc stmmac
    tun veth virtio_net vmxnet3 '
zero_copy=' i40e ice igc ixgbe mlx5_core stmmac virtio_net '

interfaces() {
    local path name driver mtu state how found=no
    for path in /sys/class/net/*; do
        name=${path##*/}
        # ARPHRD_ETHER, which Paceline wants.
        [ "$(cat "$path/type" 2>/dev/null)" = 1 ] || continue
        found=yes
        driver=$(basename "$(readlink "$path/device/driver" 2>/dev/null)" 2>/dev/null)
        [ -n "$driver" ] || driver=$(sed -n 's/^driver: //p' <(ethtool -i "$name" 2>/dev/null))
        mtu=$(cat "$path/mtu") state=$(cat "$path/operstate")
        if [ "$mtu" -gt 3498 ]; then
            how="AF_XDP in several buffers a frame where the kernel has that (Linux 6.6), else AF_PACKET"
        elif [[ "$native_xdp" != *" ${driver:-?} "* ]]; then
            how="AF_XDP in copy mode; XDP generic, unless the driver has its own"
        elif [[ "$zero_copy" == *" $driver "* ]]; then
            how="AF_XDP, XDP native; zero copy if kernel and card have it"
        else
            how="AF_XDP in copy mode, XDP native"
        fi
        printf '  %-12s %s, %s, %s receive queues, MTU %s: %s\n' "$name" "${driver:-driver not known}" "$state" \
            "$(find "$path/queues" -name 'rx-*' 2>/dev/null | wc -l)" "$mtu" "$how"
    done
    [ $found = yes ] || echo "  none; ./x lab makes some in network namespaces, for tests"
}

can_lock() { [ "$1" -ge 65536 ] || capable 14; }
# The file system of securityfs may not be mounted: a kernel that knows of it says so in its log or configuration.
has_landlock() { grep -q landlock /sys/kernel/security/lsm || kernel_has CONFIG_SECURITY_LANDLOCK; }

needed() { # what, what it gives, how to get it, test
    check "$@"
    "${@:4}" >/dev/null 2>&1 || is_ready=no
}

has_rust() (
    export RUSTUP_AUTO_INSTALL=0
    new_enough "$(rustc --version 2>/dev/null)" && cargo clippy --version && cargo fmt --version
)

check() { # what, what it gives, how to get it, test
    local mark=ok get=""
    "${@:4}" >/dev/null 2>&1 || { mark=missing; get="; to get it: $3"; }
    printf '  %-8s %-23s %s\n' $mark "$1" "$2$get"
}

sorted() { printf '%s\n' "$@" | sort -C -V; }
can_build_page() { have node && have npm; }
can_ping() { have ip && have ping; }
capable() { (((0x$(sed -n 's/^CapEff:\s*//p' /proc/self/status) >> $1) & 1)); }
kernel_has() { { zcat /proc/config.gz || cat "/boot/config-$(uname -r)"; } 2>/dev/null | grep "^$1=[ym]"; }
