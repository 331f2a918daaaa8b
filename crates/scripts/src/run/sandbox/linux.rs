//! How Linux confines a process: Landlock for files, seccomp for system calls, no capabilities.

use super::{Walls, spots::Spot};
use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope, path_beneath_rules,
};
use rustix::{
    process::setsid,
    thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpArgLen::Qword, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule,
};
use std::{
    error::Error,
    fmt::Display,
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// What this is written for; older systems that cannot do all of what is asked refuse.
const VERSION: ABI = ABI::V5;

/// `open_tree_attr`, which has the same number on every processor.
const OPEN_TREE_ATTR: i64 = 467;

/// Ways into other processes, into the kernel and out of the file system as it is seen here.
const REFUSED: [i64; 52] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_bpf,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    // System V IPC and POSIX message queues: Landlock does not restrict them.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];
/// What programs do without when the system says it has no such call. The arguments of `clone3` and
/// of what is queued in an io_uring cannot be looked at.
const MISSING: [i64; 2] = [libc::SYS_clone3, libc::SYS_io_uring_setup];
/// Flags of `clone` for a process in namespaces of its own, where it may do more.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Ways to type into a terminal.
const TYPING: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];
/// Calls that are refused: always, or where one of the rules fits.
type Refused = Vec<(i64, Vec<SeccompRule>)>;
/// What `ioprio_set` calls one process.
const IOPRIO_WHO_PROCESS: u64 = 1;
/// Numbers of calls from here on are those of x32, a second set that no filter above looks at.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Confines this process. With limited memory it gets none that belongs to no process, which nothing
/// counts.
pub(super) fn confine(walls: &Walls, has_limited_memory: bool) -> io::Result<()> {
    let failed = |what: &str, error: &dyn Display| {
        io::Error::other(format!("no sandbox for {what}: {error}"))
    };
    // Without a controlling terminal, if it was not in a session of its own already.
    let _ = setsid();
    files(walls).map_err(|error| failed("files", &error))?;
    capabilities().map_err(|error| failed("capabilities", &error))?;
    calls(has_limited_memory).map_err(|error| failed("other processes", &error))?;
    sockets(walls).map_err(|error| failed("the network", &error))
}

/// Enters a Landlock domain, always: a process in one cannot look into any outside of it.
fn files(walls: &Walls) -> Result<(), landlock::RulesetError> {
    let (reading, writing) = (AccessFs::from_read(VERSION), AccessFs::from_write(VERSION));
    // Renaming from folder to folder is refused in every domain that does not handle it.
    let mut handled: BitFlags<AccessFs> = AccessFs::Refer.into();
    if walls.read.is_some() {
        handled |= reading;
    }
    if walls.write.is_some() {
        handled |= writing;
    }
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset = ruleset.handle_access(handled)?;
    if !walls.signals {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    if !walls.unix_sockets {
        // Their system calls are refused anyway.
        ruleset = ruleset.set_compatibility(CompatLevel::BestEffort);
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
        ruleset = ruleset.set_compatibility(CompatLevel::HardRequirement);
    }
    let mut created = ruleset.create()?;
    if let Some(read) = &walls.read {
        let read = opened(read);
        created = created.add_rules(path_beneath_rules(named(&read), reading))?;
    }
    created = match &walls.write {
        Some(write) => {
            let write = opened(write);
            created.add_rules(path_beneath_rules(named(&write), writing))?
        }
        None => created.add_rules(path_beneath_rules(["/"], AccessFs::Refer))?,
    };
    created.restrict_self().map(drop)
}

/// Those of some paths that are there.
fn opened(spots: &[Spot]) -> Vec<OwnedFd> {
    spots.iter().filter_map(|spot| spot.open().ok()).collect()
}

/// Paths that lead to open files, whatever becomes of their own.
fn named(files: &[OwnedFd]) -> impl Iterator<Item = String> {
    files.iter().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Drops all capabilities. Landlock has set `no_new_privs`: no program gives them back, not even to
/// root.
fn capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    clear_ambient_capability_set()?;
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}

fn calls(has_limited_memory: bool) -> Result<(), Box<dyn Error>> {
    let mut refused: Refused = REFUSED.iter().map(|call| (*call, vec![])).collect();
    if has_limited_memory {
        refused.extend([libc::SYS_memfd_create, libc::SYS_memfd_secret].map(|call| (call, vec![])));
    }
    // Limits of other processes; the second condition lets everybody look at them.
    let limits = [
        SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, 0)?,
        SeccompCondition::new(2, Qword, SeccompCmpOp::Ne, 0)?,
    ];
    // `RLIMIT_RTTIME` has the tag of the run: see `process_tree`. A script must not change it.
    let tag = u64::from(libc::RLIMIT_RTTIME);
    let own_tag = [
        SeccompCondition::new(1, Dword, SeccompCmpOp::Eq, tag)?,
        SeccompCondition::new(2, Qword, SeccompCmpOp::Ne, 0)?,
    ];
    let limits = vec![SeccompRule::new(limits.into())?, SeccompRule::new(own_tag.into())?];
    refused.push((libc::SYS_prlimit64, limits));
    refused.push((libc::SYS_setrlimit, vec![one(0, SeccompCmpOp::Eq, tag)?]));
    refused.extend(scheduling()?);
    let bits = |flags: i32| {
        let flags = u64::from(flags.cast_unsigned());
        one(0, SeccompCmpOp::MaskedEq(flags), flags)
    };
    let namespaces: Result<_, _> = NAMESPACES.into_iter().map(bits).collect();
    refused.push((libc::SYS_clone, namespaces?));
    let typing: Result<_, _> =
        TYPING.into_iter().map(|request| one(1, SeccompCmpOp::Eq, request)).collect();
    refused.push((libc::SYS_ioctl, typing?));
    // A lease on a file keeps others from opening it, the server among them.
    let lease = u64::from(libc::F_SETLEASE.cast_unsigned());
    refused.push((libc::SYS_fcntl, vec![one(1, SeccompCmpOp::Eq, lease)?]));
    refuse(refused, libc::EPERM)?;
    refuse(MISSING.iter().map(|call| (*call, vec![])).collect(), libc::ENOSYS)?;
    refuse_x32()
}

/// Calls that change when, and on which processors, others run: each is for the calling thread only.
fn scheduling() -> Result<Refused, Box<dyn Error>> {
    let other = |argument| one(argument, SeccompCmpOp::Ne, 0);
    // Whole groups and users are others, too.
    let beyond = |one_process: u64| one(0, SeccompCmpOp::Ne, one_process);
    Ok(vec![
        (libc::SYS_setpriority, vec![other(1)?, beyond(libc::PRIO_PROCESS.into())?]),
        (libc::SYS_ioprio_set, vec![other(1)?, beyond(IOPRIO_WHO_PROCESS)?]),
        (libc::SYS_sched_setscheduler, vec![other(0)?]),
        (libc::SYS_sched_setparam, vec![other(0)?]),
        (libc::SYS_sched_setattr, vec![other(0)?]),
        (libc::SYS_sched_setaffinity, vec![other(0)?]),
    ])
}

fn sockets(walls: &Walls) -> Result<(), Box<dyn Error>> {
    if walls.network && walls.unix_sockets {
        return Ok(());
    }
    let families = match walls.network {
        false => vec![],
        true => vec![one(0, SeccompCmpOp::Eq, libc::AF_UNIX.cast_unsigned().into())?],
    };
    // Pairs of these types stay connected to each other. One of a pair of datagram sockets, which
    // `SOCK_RAW` makes as well, can be connected to anything else.
    let pairs =
        [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(|kind| u64::from(kind.cast_unsigned()));
    let others = (0..=0xf).filter(|kind| !pairs.contains(kind));
    let others: Result<_, _> =
        others.map(|kind| one(1, SeccompCmpOp::MaskedEq(0xf), kind)).collect();
    let calls = vec![(libc::SYS_socket, families), (libc::SYS_socketpair, others?)];
    refuse(calls, libc::EAFNOSUPPORT)
}

/// A rule for one argument of a call.
fn one(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, Box<dyn Error>> {
    Ok(SeccompRule::new(vec![SeccompCondition::new(argument, Dword, is, value)?])?)
}

/// Has the system answer calls with an error: always, or where one of the rules fits.
fn refuse(calls: Refused, error: i32) -> Result<(), Box<dyn Error>> {
    let filter = SeccompFilter::new(
        calls.into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(error.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    let filter: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&filter)?)
}

#[cfg(target_arch = "x86_64")]
fn refuse_x32() -> Result<(), Box<dyn Error>> {
    use seccompiler::sock_filter;
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    let program = [
        // The number of the call comes first in what a filter sees.
        step(LOAD, 0),
        sock_filter { code: IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        step(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ];
    Ok(seccompiler::apply_filter(&program)?)
}

#[cfg(not(target_arch = "x86_64"))]
fn refuse_x32() -> Result<(), Box<dyn Error>> {
    Ok(())
}
