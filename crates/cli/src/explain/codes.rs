//! The codes of errors and refusals, each with its page.

/// What one code means.
pub struct Page {
    /// As errors and command lines write it: words with hyphens. It does not change from release to release.
    pub name: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// When it comes, and why.
    pub means: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// How to see it.
    pub shown: Shown,
}

/// How to see an error.
pub enum Shown {
    /// Lines for a shell, in the folder of the sources, of which the last one fails so.
    By(&'static str),
    /// What it takes, where a few lines are not enough. A unit test makes the error.
    Only(&'static str),
}

/// An enumeration of codes, and the page of each.
macro_rules! codes {
    ($($Code:ident = $name:literal { $($part:tt)* })*) => {
        /// What an error is about. `paceline explain NAME` prints its page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($Code,)*
        }

        /// All codes, in the order of the reference.
        pub const ALL: &[Code] = &[$(Code::$Code,)*];

        impl Code {
            /// What it means.
            pub fn page(self) -> &'static Page {
                match self {
                    $(Code::$Code => &Page { name: $name, $($part)* },)*
                }
            }
        }
    };
}

codes! {
    // The command line and files.
    Usage = "usage" {
        title: "Arguments are missing, wrong, or do not fit together",
        means: "The message names the arguments. Some belong to captures and others to interfaces; some need another one beside \
                them. Paceline refuses rather than leave one of them out, so that what it reports is what was asked for.",
        remedy: "Do what the help below the message says. `paceline COMMAND --help` has every option with its unit and its \
                 default.",
        shown: Shown::By("paceline run examples/edge.toml"),
    }
    UnknownName = "unknown-name" {
        title: "There is no function, model, option or number of that name",
        means: "The message lists the names that there are, and has the one that is most like yours. A program of your own may \
                have functions and strategies that the installed `paceline` has not.",
        remedy: "Take one of the names listed. `paceline nfs` lists functions, `paceline nfs NAME` the options of one, and \
                 `paceline generate --help` the models of traffic.",
        shown: Shown::By("paceline nfs conntrak"),
    }
    CannotRead = "cannot-read" {
        title: "A file or folder cannot be read",
        means: "It is not there, or this user may not read it. Where a file of a similar name is there, the message has it.",
        remedy: "Check the name and the permissions, `ls -l FILE`. Relative names begin at the folder in which the command runs.",
        shown: Shown::By("paceline run examples/egde.toml --pcap captures/edge.pcap"),
    }
    CannotWrite = "cannot-write" {
        title: "An output cannot be written",
        means: "The folder is not there, this user may not write in it, or the disk is full. A file that was there before is as it \
                was: outputs are written beside it, and get their names when they are whole.",
        remedy: "Name a file in a folder that is there and can be written. Long runs check this before they begin.",
        shown: Shown::By("paceline run examples/edge.toml --pcap captures/edge.pcap --json no/such/folder/x.json"),
    }
    Overwrites = "overwrites" {
        title: "Two outputs are one file, or an output is the input",
        means: "Both names lead to one file, perhaps by a link, or two outputs want standard output. One would destroy the other.",
        remedy: "Give each output a name of its own, and at most one of them `-`.",
        shown: Shown::By("paceline run examples/edge.toml --pcap captures/edge.pcap --out captures/edge.pcap"),
    }
    WrongFile = "wrong-file" {
        title: "A file is of another kind than the command takes",
        means: "A capture stands where a chain file was expected or the other way round, or a file that people write is not text \
                in UTF-8, or is too large to be one.",
        remedy: "The chain comes first and has no option; captures come behind `--pcap`: `paceline run CHAIN.toml --pcap IN.pcap`.",
        shown: Shown::By("paceline run captures/edge.pcap --pcap captures/edge.pcap"),
    }
    ChainFile = "chain-file" {
        title: "There is a mistake in a chain file",
        means: "The message has file, line and column, and what is valid there: a function that there is not, an option of another \
                function, a value out of range, or TOML that is none.",
        remedy: "Mend that line. `paceline check CHAIN.toml` reads the file and runs nothing; `paceline schema chain` has an \
                 editor complete and check it. docs/chain-file.md lists what a chain takes.",
        shown: Shown::By("printf '[[function]]\\nuse = \"conntrak\"\\n' > chain.toml\npaceline check chain.toml"),
    }
    P4Program = "p4-program" {
        title: "There is a mistake in a P4 program",
        means: "The program does not parse, does not type-check, or uses what `docs/p4.md` says is left out. Each mistake has its \
                line and column.",
        remedy: "Mend the first one: later ones may follow from it. `paceline p4 check PROGRAM.p4` runs nothing.",
        shown: Shown::By("echo 'header h_t { bit<8> a }' > wrong.p4\npaceline p4 check wrong.p4"),
    }
    TestFile = "test-file" {
        title: "A line of a test file for a P4 program means nothing",
        means: "Test files have one command a line: `packet`, `expect`, `setdefault` and others, as docs/p4.md lists them. The \
                message has the line.",
        remedy: "Mend that line. A `#` begins a comment.",
        shown: Shown::By("echo 'paket 0 00' > wrong.stf\npaceline p4 run examples/p4/port_knocking.p4 --stf wrong.stf"),
    }
    Filter = "filter" {
        title: "A filter of packets has a mistake",
        means: "Filters are those of tcpdump, compiled by libpcap. The message points at the place where it stops understanding.",
        remedy: "See pcap-filter(7). Quote the filter for the shell: `--trace 'tcp port 80 and host 192.0.2.1'`.",
        shown: Shown::By("paceline run examples/edge.toml --pcap captures/edge.pcap --trace 'tcp prot 80'"),
    }
    NoLibpcap = "no-libpcap" {
        title: "Filters need libpcap, which is not on this machine",
        means: "Paceline loads the library when a filter is given, and runs without it else.",
        remedy: "Install it (Debian and Ubuntu: `apt-get install libpcap0.8`), or give '' to mean all packets.",
        shown: Shown::Only("a machine without libpcap"),
    }
    NoRay = "no-ray" {
        title: "A sweep over a Ray cluster needs Python's package and Ray, which are not on this machine",
        means: "`paceline sweep --ray` hands over to `python3 -m paceline.ray`. The message names the packages that `python3` does not \
                find.",
        remedy: "`pip install 'paceline[ray]'` in the environment whose `python3` comes first in PATH, or sweep without --ray.",
        shown: Shown::By(
            "PATH=/nowhere \"$(command -v paceline)\" sweep captures --chains examples/edge.toml --ray local",
        ),
    }
    TrafficModel = "traffic-model" {
        title: "A model of traffic has an option with a value that it cannot have",
        means: "The value is out of range, is given twice, or does not fit the others. The message has the range.",
        remedy: "`paceline generate --help` lists the options of each model, and docs/traffic.md says what they mean.",
        shown: Shown::By("paceline bench chain examples/edge.toml --traffic zipf:flows=0"),
    }

    // Captures.
    NotACapture = "not-a-capture" {
        title: "A file is no capture, or one in a format that is not read",
        means: "Paceline reads pcap and pcapng, plain or packed with gzip or zstd. The message says what the file begins with.",
        remedy: "`editcap -F pcapng IN OUT` converts other captures. A file of no bytes has to be recorded again.",
        shown: Shown::By("echo hello > hello.pcap\npaceline inspect --pcap hello.pcap"),
    }
    LinkType = "link-type" {
        title: "A capture has packets of a link type that is not parsed",
        means: "Packets begin with a header that Paceline does not know, such as that of a USB bus. The message lists those that \
                it knows.",
        remedy: "Record at another interface, or convert the capture to Ethernet or to raw IP.",
        shown: Shown::By("printf '\\xd4\\xc3\\xb2\\xa1\\x02\\0\\x04\\0\\0\\0\\0\\0\\0\\0\\0\\0\
                          \\xff\\xff\\0\\0\\xdc\\0\\0\\0' > usb.pcap\npaceline inspect --pcap usb.pcap"),
    }
    CaptureInterface = "capture-interface" {
        title: "A capture has no interface of that name",
        means: "A chain with two sides may tell them by the interfaces of a pcapng file. A pcap file does not say by which \
                interface a packet came.",
        remedy: "Name one of those that the message lists, or record with `dumpcap -i IF -i IF`.",
        shown: Shown::By("paceline run examples/gateway.toml --pcap captures/gateway.pcap --inside-interface eth9"),
    }
    CutShort = "cut-short" {
        title: "An input is cut short or damaged",
        means: "The file ends within a packet, or has bytes that its format forbids. What was read before counts: the report is \
                about it, and says so. The exit status is 4 if there were whole packets, and 2 if not.",
        remedy: "Copy or record the file again for the rest. A capture that is still being written ends so, too.",
        shown: Shown::By("head -c 5000 captures/edge.pcap > cut.pcap\npaceline run examples/edge.toml --pcap cut.pcap"),
    }
    NothingCompared = "nothing-compared" {
        title: "Nothing was compared, or no figure was found",
        means: "The input has no packets, the strategy promises nothing of this chain, or no rate was found at which few enough \
                packets are lost. Nothing is shown by that, so it is no success. The exit status is 3.",
        remedy: "Give a capture with packets that the functions take, or the strategy that `paceline plan` names.",
        shown: Shown::By("head -c 24 captures/edge.pcap > empty.pcap\npaceline plan examples/edge.toml --pcap empty.pcap"),
    }
    History = "history" {
        title: "Packets and the history before them do not fit",
        means: "The folder does not hold all files of one `paceline sequence`, or holds others, or the chain has no history of the \
                version that was asked for.",
        remedy: "Write the folder anew: `paceline sequence CHAIN.toml --pcap IN.pcap --cores N --out-dir FOLDER`.",
        shown: Shown::By("paceline run examples/perimeter.toml --strategy scr --sequencer external --pcap-dir captures"),
    }

    // Strategies.
    NumberOfCores = "number-of-cores" {
        title: "A strategy does not run on that many cores",
        means: "`single` runs on one core; a packet's history holds that of so many cores and no more; cores that have a ring to \
                each other are limited, too. The message has the limit.",
        remedy: "Give `--cores` another number, or choose another strategy: `paceline check CHAIN.toml --cores N` lists those that \
                 run.",
        shown: Shown::By("paceline run examples/edge.toml --pcap captures/edge.pcap --strategy single --cores 2"),
    }
    KeysConflict = "keys-conflict" {
        title: "Two functions of the chain cannot both have their flows on one core",
        means: "A strategy that spreads flows over cores hashes header fields that all keys of the chain have in common. Here they \
                have none, such as a function for each source beside one for each destination: two packets that one function has \
                to see on one core, the other one may have on two.",
        remedy: "The message names strategies that run this chain: `scr` replicates states and needs no common field, `single` has \
                 one core. Two chains in a row do it, too. docs/strategies.md compares them.",
        shown: Shown::By("paceline run examples/perimeter.toml --pcap captures/edge.pcap --strategy rss --cores 2"),
    }
    PayloadFirst = "payload-first" {
        title: "A function that looks into payloads stands before functions with states",
        means: "Under `scr` each core repeats what others did, from header fields alone. What a function found in a payload is not \
                among them, and it decides what the functions behind it see.",
        remedy: "Put that function behind the others, or take the strategy that the message names.",
        shown: Shown::By("printf '[[function]]\\nuse = \"pattern-scanner\"\\npatterns = [\"abc\"]\\n\
                          [[function]]\\nuse = \"ddos\"\\n' > scan.toml\n\
                          paceline run scan.toml --pcap captures/edge.pcap --strategy scr --cores 2"),
    }
    NoPromotion = "no-promotion" {
        title: "Flows of a function cannot be replicated while others are not",
        means: "`hybrid` shards flows and replicates the few that are too large for a core. A function whose flows share \
                something, such as a pool of ports, cannot have some of them replicated.",
        remedy: "Take the strategy that the message names.",
        shown: Shown::By("paceline run examples/nat.toml --pcap captures/edge.pcap --strategy hybrid --cores 2"),
    }
    Classes = "classes" {
        title: "A flow could be in two classes of traffic",
        means: "`dyssect` keeps classes on cores of their own. A class has to follow from the header fields that are hashed, so \
                that all packets of a flow are in one.",
        remedy: "Have classes told by fields that the message names, or take a strategy without classes, such as `rsspp`.",
        shown: Shown::Only("a chain with a `[[class]]` that is told by a field which the chain's keys leave out"),
    }
    Memory = "memory" {
        title: "The tables need more memory than is free",
        means: "Tables are made at the start, for as many flows as the chain says, on each core; a core never asks for memory \
                later. The message has both numbers.",
        remedy: "Use fewer cores, or smaller `flows` in the chain file.",
        shown: Shown::By("printf '[[function]]\\nuse = \"conntrack\"\\nflows = 16777216\\n' > large.toml\n\
                          paceline run large.toml --pcap captures/edge.pcap --strategy rss --cores 128"),
    }
    NoParking = "no-parking" {
        title: "The number of cores that get packets cannot change",
        means: "Parking a core takes a strategy that moves flows to others, and a chain of which no state is common to all cores.",
        remedy: "Use `--strategy rsspp` or `dyssect`, and start with as many cores as the run may need. docs/control.md has the \
                 rest.",
        shown: Shown::By("paceline run examples/edge.toml --pcap captures/edge.pcap --strategy shared --cores 2 --cores-at 100=1"),
    }
    CannotMeasure = "cannot-measure" {
        title: "A chain cannot be measured so",
        means: "There are fewer processors than cores, the trace has nothing for functions to work on, or virtual cores cannot \
                show what was asked: they run in turn, and never wait for each other.",
        remedy: "Use fewer cores, or `--virtual`, as the message says. docs/benchmarking.md says what each kind of core can show.",
        shown: Shown::By("paceline bench mlffr examples/edge.toml --traffic uniform --strategy rss --cores 100"),
    }
    SweepFolder = "sweep-folder" {
        title: "The folder of a sweep has another sweep, or cannot be written",
        means: "A sweep keeps a journal of what it compared, so that it can go on after an interruption. A second sweep does not \
                write over the first.",
        remedy: "Add `--resume` to go on with it, or name another folder with `--out`.",
        shown: Shown::By("mkdir done; touch done/runs.jsonl\n\
                          paceline sweep captures --chains examples/edge.toml --out done"),
    }

    // What was found.
    Different = "different" {
        title: "What has to be equal is different",
        means: "`verify` found an answer that one core would not have given, or a model of hardware and its reference differ. The \
                message has the first difference. The exit status is 1.",
        remedy: "For a stock function or strategy this is a defect: please report it, with the capture. For one of your own, \
                 `paceline sweep` makes the difference small.",
        shown: Shown::Only("a function of your own whose answer depends on which core has the packet"),
    }
    NotMet = "not-met" {
        title: "Expectations of a test file were not met",
        means: "The program answered otherwise than an `expect` of the test file says. Each one is listed with its line. The exit \
                status is 1.",
        remedy: "Mend the program or the expectation. `paceline p4 run` with `--packet` shows what one packet comes to.",
        shown: Shown::By("echo 'expect 0 00' > none.stf\npaceline p4 run examples/p4/port_knocking.p4 --stf none.stf"),
    }
    Defect = "defect" {
        title: "Paceline has a defect",
        means: "Something came about that must never be. The exit status is 101, as that of a panic.",
        remedy: "Please report it, with the command, what was printed, and the capture if you can share it. CONTRIBUTING.md says \
                 how to report what a stranger could abuse.",
        shown: Shown::Only("a defect"),
    }

    // Interfaces.
    NoInterface = "no-interface" {
        title: "There is no network interface of that name",
        means: "Paceline looks in the network namespace in which it runs. The message lists the interfaces there.",
        remedy: "`ip -br link` lists them. In another namespace: `ip netns exec NAME paceline ...`. `tap:NAME` makes one.",
        shown: Shown::By("paceline run examples/edge.toml --on nowhere0"),
    }
    InterfaceDown = "interface-down" {
        title: "An interface is down",
        means: "It is there, and neither sends nor receives.",
        remedy: "`ip link set IF up`. A new namespace has even `lo` down.",
        shown: Shown::Only("an interface that is down, such as `lo` in a new network namespace: \
                            `unshare -n paceline run examples/edge.toml --on lo`"),
    }
    NotEthernet = "not-ethernet" {
        title: "An interface carries no Ethernet frames",
        means: "It is a tunnel without link-layer headers, or of another hardware.",
        remedy: "Use the Ethernet interface below the tunnel, or a TAP device instead of a TUN device.",
        shown: Shown::Only("a TUN device"),
    }
    Rights = "rights" {
        title: "This process may not do that",
        means: "Packets of interfaces take CAP_NET_RAW, CAP_NET_ADMIN and, for programs in the kernel, CAP_BPF. The message says \
                which are missing. In a container root may lack them, too.",
        remedy: "Run it as root, or give the program these capabilities; packaging/paceline@.service has a service with no more \
                 than them. `--inside tap:NAME --outside tap:NAME` takes none to a card.",
        shown: Shown::Only("a user without these rights"),
    }
    InterfaceRefused = "interface-refused" {
        title: "An interface cannot be used in that way",
        means: "Its driver, its queues, its MTU or another program at it stand against what was asked, whatever the rights.",
        remedy: "The help below the message says what works. `./x doctor` shows what each interface of this machine allows.",
        shown: Shown::Only("an interface whose driver does not do what was asked"),
    }
    SystemRefused = "system-refused" {
        title: "The kernel refuses what was tried",
        means: "A system call failed, for another reason than rights. The message has the kernel's words: `busy` is another \
                program at that queue.",
        remedy: "`ip link show IF` says whether another XDP program is attached; `dmesg` may say more.",
        shown: Shown::Only("a kernel that refuses"),
    }
    NoClang = "no-clang" {
        title: "Programs for the kernel need clang, which is not here",
        means: "`--backend xdp` and `p4 compile --target xdp` compile the program's C by clang.",
        remedy: "Install it (`apt-get install clang`), or name it in the variable CLANG.",
        shown: Shown::By("CLANG=/nowhere/clang paceline p4 compile examples/p4/port_knocking.p4 --target xdp --out xdp"),
    }

    // Runs that others ask.
    NoRun = "no-run" {
        title: "No run answers at that control socket",
        means: "No run is there, it was started with another `--control`, or it belongs to another user.",
        remedy: "Give `ctl` the path that the run was given with `--control`, and ask as its user, as with sudo.",
        shown: Shown::By("paceline ctl status --control nowhere.sock"),
    }
    RunRefused = "run-refused" {
        title: "A run refuses what it was asked",
        means: "The run goes on as before. What was asked does not fit its chain, its strategy or its sockets; the message says \
                why.",
        remedy: "The help below the message says what works. Some changes take a start anew, with `--front`.",
        shown: Shown::Only("a run on interfaces that is asked for what it cannot do: `paceline ctl cores 9` of a run with two"),
    }
    CannotListen = "cannot-listen" {
        title: "A server cannot listen at that address",
        means: "Another program listens there, or the address is none of this machine.",
        remedy: "Choose another port, or 0 for any that is free. `ss -ltn` lists those taken.",
        shown: Shown::By("paceline run examples/edge.toml --pcap captures/edge.pcap --metrics 192.0.2.1:9100"),
    }
    NoAnswer = "no-answer" {
        title: "Nobody answers at that address, or not with metrics",
        means: "`top` reads the metrics of a run. None listens there, or another program does.",
        remedy: "Start a run with `--metrics HOST:PORT`, and give `top` the same.",
        shown: Shown::By("paceline top --once 127.0.0.1:1"),
    }

    // Hardware.
    NotInXdp = "not-in-xdp" {
        title: "A P4 program is not in the subset that is compiled to XDP",
        means: "It uses what a program in the kernel cannot do, or what the compiler does not do. Each such place is listed.",
        remedy: "docs/xdp.md lists what is compiled. `paceline p4 matrix PROGRAM.p4` says which models run the program.",
        shown: Shown::By("paceline p4 compile examples/p4/mac_learning.p4 --target xdp --out xdp"),
    }
    NotInHardware = "not-in-hardware" {
        title: "A chain or program cannot be hardware so",
        means: "The hardware leaves some of it to receivers, or does not do it. Paceline refuses rather than write hardware that \
                answers otherwise.",
        remedy: "Change what the message names; docs/rtl.md says what the hardware does.",
        shown: Shown::By("paceline rtl sequencer examples/gateway.toml --cores 2"),
    }
    NotEmulated = "not-emulated" {
        title: "A model does not run this program with these options",
        means: "The program uses what the model's hardware does not have, its tables do not fit into stages, or the numbers of \
                stages, cycles and buffers contradict each other.",
        remedy: "The message says what to change; docs/rapid.md has the range of each option, and `paceline p4 matrix PROGRAM.p4` \
                 says which models run a program.",
        shown: Shown::By("paceline emulate examples/p4/port_knocking.p4 --model banzai --traffic uniform"),
    }
    DoesNotFit = "does-not-fit" {
        title: "A P4 program does not fit the chip",
        means: "Some stage has fewer blocks, units or bits than the program takes. Each shortage is named with its place and its \
                amount.",
        remedy: "Make the tables smaller, or choose a larger chip with `--profile`. docs/resources.md says what is counted.",
        shown: Shown::By("paceline p4 resources examples/p4/elephant.p4 --profile switch"),
    }
}
