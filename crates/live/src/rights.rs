//! What this process may do: giving up what it does not need, as far as the kernel can take it.
//!
//! Capabilities belong to threads, and a new thread has those of the one that starts it. So code that starts threads calls
//! [`keep`] first, and a thread that needs more is started earlier.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use caps::{CapSet, CapsHashSet};
use landlock::{
    ABI, AccessFs, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus,
};
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

pub use caps::Capability;

use crate::LiveError;

/// What opening an interface takes: sockets, the XDP program at it, its locked memory. The thread that picks up
/// interfaces that come back keeps these.
pub const FOR_INTERFACES: [Capability; 4] =
    [Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN, Capability::CAP_BPF, Capability::CAP_IPC_LOCK];

/// What asking the kernel for a neighbour takes: the thread that follows routes keeps it.
pub(crate) const FOR_NEIGHBOURS: [Capability; 1] = [Capability::CAP_NET_ADMIN];

/// What reaches files whatever their owner and mode.
const FOR_FILES: [Capability; 2] = [Capability::CAP_DAC_OVERRIDE, Capability::CAP_DAC_READ_SEARCH];

/// Takes all capabilities from the calling thread but those in `kept`, for good, and says which it still has.
///
/// # Errors
/// [`LiveError`] if the kernel refuses.
pub fn keep(kept: &[Capability]) -> Result<Vec<Capability>, LiveError> {
    let had = caps::read(None, CapSet::Permitted).map_err(cannot)?;
    let kept: CapsHashSet = kept.iter().copied().filter(|kept| had.contains(kept)).collect();
    // What is in effect is always permitted.
    caps::set(None, CapSet::Effective, &kept).map_err(cannot)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(cannot)?;
    caps::clear(None, CapSet::Inheritable).map_err(cannot)?;
    let mut kept: Vec<Capability> = kept.into_iter().collect();
    kept.sort_by_key(Capability::index);
    Ok(kept)
}

/// The capabilities without which this process could not write in the folders of `written`, or read `read`: none where
/// it owns them. Files are opened again at the end of a run, and at a reload.
///
/// # Errors
/// [`LiveError`] if the kernel refuses.
pub fn for_files(written: &[&Path], read: &[&Path]) -> Result<Vec<Capability>, LiveError> {
    let had = caps::read(None, CapSet::Effective).map_err(cannot)?;
    let without = had.iter().copied().filter(|capability| !FOR_FILES.contains(capability)).collect();
    caps::set(None, CapSet::Effective, &without).map_err(cannot)?;
    let may = |path: &Path, how| faccessat(nix::fcntl::AT_FDCWD, path, how, AtFlags::AT_EACCESS).is_ok();
    let may_write = written.iter().all(|path| may(folder(path), AccessFlags::W_OK | AccessFlags::X_OK));
    let may_read = read.iter().all(|path| may(path, AccessFlags::R_OK));
    caps::set(None, CapSet::Effective, &had).map_err(cannot)?;
    Ok(match (may_write, may_read) {
        (true, true) => Vec::new(),
        (true, false) => FOR_FILES[1..].to_vec(),
        (false, _) => FOR_FILES.to_vec(),
    })
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cannot(error: caps::errors::CapsError) -> LiveError {
    LiveError::of("cannot give up capabilities", std::io::Error::other(error.to_string()))
}

/// What [`confine`] could have the kernel enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Files are written in some folders alone, and none is executed.
    pub landlock: bool,
    /// System calls that Paceline never makes are refused.
    pub seccomp: bool,
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |is_on| if is_on { "on" } else { "not in this kernel" };
        write!(f, "Landlock {}, seccomp {}", of(self.landlock), of(self.seccomp))
    }
}

/// Confines the calling thread, and those that it starts from now on: no new privileges, writing in the folders of
/// `written` alone, and none of the system calls that take a machine over. Best effort: old kernels know less of it.
pub fn confine(written: &[&Path]) -> Confined {
    // It fails on no kernel that there is AF_XDP on.
    let _ = nix::sys::prctl::set_no_new_privs();
    Confined { landlock: write_only_in(written), seccomp: refuse_calls().is_some() }
}

fn write_only_in(written: &[&Path]) -> bool {
    let restricted = || -> Result<RestrictionStatus, RulesetError> {
        let writes = AccessFs::from_write(ABI::V4);
        let mut ruleset = Ruleset::default().handle_access(writes | AccessFs::Execute)?.create()?;
        // A link leads to another folder: `/dev/stdout` to that of a file.
        let targets: Vec<PathBuf> = written.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for path in written.iter().copied().chain(targets.iter().map(PathBuf::as_path)) {
            // Where there is no such folder nothing can be written, and the run says so when it tries.
            if let Ok(folder) = PathFd::new(folder(path)) {
                ruleset = ruleset.add_rule(PathBeneath::new(folder, writes))?;
            }
        }
        ruleset.restrict_self()
    };
    restricted().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

/// System calls that nothing here makes, and that an attacker who takes the process over would like to make.
const REFUSED: [libc::c_long; 49] = [
    // Other programs, and other processes' memory.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_personality,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // File systems, by the old calls and by the new ones.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Namespaces: for `clone` see NAMESPACES.
    libc::SYS_setns,
    libc::SYS_unshare,
    // The kernel itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // The clock.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // What attacks on the kernel like to begin with.
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
];

/// Those that only this architecture has: ports of the machine, and segments.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: [libc::c_long; 3] = [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: [libc::c_long; 0] = [];

/// `open_tree_attr` of Linux 6.15.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Flags by which `clone` makes what `unshare` makes.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
];

/// From this number on system calls are those of another ABI: on x86-64 x32, which has all of them once more.
const OTHER_ABI: u32 = 0x4000_0000;

fn refuse_calls() -> Option<()> {
    let mut calls: BTreeMap<i64, Vec<_>> =
        REFUSED.iter().chain(&REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    let asks = |flag: libc::c_int| {
        let flag = flag as u64;
        let of_flags =
            SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag).ok()?;
        SeccompRule::new(vec![of_flags]).ok()
    };
    calls.insert(libc::SYS_clone, NAMESPACES.into_iter().map(asks).collect::<Option<_>>()?);
    let mut program = refusing(calls, libc::EPERM)?;
    // Before all else: the number as it is, and whether it is below.
    let begins = [
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, OTHER_ABI, 1),
        (libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
    ];
    let begins = begins.map(|(code, k, jf)| seccompiler::sock_filter { code: code as u16, jt: 0, jf, k });
    program.splice(..0, begins);
    seccompiler::apply_filter(&program).ok()?;
    // Its flags are in memory, where a filter cannot look. Libraries go on with `clone` where the kernel has none.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    seccompiler::apply_filter(&refusing(clone3, libc::ENOSYS)?).ok()
}

/// A filter by which these calls fail with an error.
fn refusing(calls: BTreeMap<i64, Vec<SeccompRule>>, error: libc::c_int) -> Option<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
    let refuse = SeccompAction::Errno(error as u32);
    BpfProgram::try_from(SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch).ok()?).ok()
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::{fs, process, thread};

    use super::*;

    /// On a thread of its own: what it gives up, it alone lacks.
    #[test]
    fn a_confined_thread_writes_where_it_may_and_starts_nothing() {
        let folders = ["allowed", "other", "linked", "links"].map(|name| {
            let folder = std::env::temp_dir().join(format!("paceline-{}-{name}", process::id()));
            fs::create_dir_all(&folder).expect("a temporary folder");
            folder
        });
        let [allowed, other, linked, link] = folders.each_ref().map(|folder| folder.join("file"));
        fs::write(&linked, "").and_then(|()| symlink(&linked, &link)).expect("a temporary folder");
        let confined = thread::scope(|scope| {
            let confined = scope.spawn(|| {
                let confined = confine(&[&allowed, &link]);
                let status = fs::read_to_string("/proc/thread-self/status").expect("it may be read");
                assert!(status.contains("NoNewPrivs:\t1"), "{status}");
                fs::write(&allowed, "a").expect("this folder may be written");
                fs::rename(&allowed, allowed.with_extension("new")).expect("and files renamed");
                fs::write(&linked, "a").expect("and where a link leads");
                if confined.landlock {
                    assert!(fs::write(&other, "a").is_err(), "another folder may not");
                }
                if confined.seccomp {
                    assert!(process::Command::new("true").status().is_err(), "no other program starts");
                }
                keep(&[]).expect("anybody may give up");
                let status = fs::read_to_string("/proc/thread-self/status").expect("it may be read");
                assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
                assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
                confined
            });
            confined.join().expect("no panic")
        });
        println!("{confined}");
        assert!(fs::write(&other, "a").is_ok(), "this thread is as before");
        folders.iter().for_each(|folder| _ = fs::remove_dir_all(folder));
    }

    /// What a system call fails with, with arguments that none of them does anything with.
    fn error_of(call: libc::c_long, first: libc::c_long) -> Option<i32> {
        // SAFETY: the arguments are no addresses of anything, and no calls here take them for a wish: without the filter
        // they would fail, too.
        let done = unsafe { libc::syscall(call, first, -1, -1, -1, -1, -1) };
        if done < 0 { std::io::Error::last_os_error().raw_os_error() } else { None }
    }

    /// Each of them, by either of the machine's ABIs; and threads go on to start.
    #[test]
    fn a_confined_thread_is_refused_each_of_these_calls() {
        let asked = thread::spawn(|| {
            if !confine(&[]).seccomp {
                println!("skipped: this kernel has no seccomp");
                return;
            }
            for call in REFUSED.into_iter().chain(REFUSED_HERE) {
                assert_eq!(error_of(call, -1), Some(libc::EPERM), "system call {call}");
            }
            for call in [libc::SYS_getpid, libc::SYS_kexec_file_load, 520] {
                let call = call | libc::c_long::from(OTHER_ABI);
                assert_eq!(error_of(call, -1), Some(libc::EPERM), "system call {call:#x}");
            }
            for flag in NAMESPACES {
                assert_eq!(error_of(libc::SYS_clone, flag.into()), Some(libc::EPERM), "clone with {flag:#x}");
            }
            assert_eq!(error_of(libc::SYS_clone3, 0), Some(libc::ENOSYS));
            assert_eq!(thread::spawn(|| 7).join().ok(), Some(7), "a thread is no namespace");
        });
        asked.join().expect("no panic");
    }

    #[test]
    fn files_of_ones_own_need_no_capability() {
        let file = std::env::temp_dir().join(format!("paceline-{}-own", process::id()));
        fs::write(&file, "a").expect("a temporary file");
        assert_eq!(for_files(&[&file], &[&file]).expect("it is asked"), []);
        fs::remove_file(&file).expect("it is there");
    }
}
