//! How much memory this process has.

/// The resident set, in KiB.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    kib.expect("VmRSS is a number of KiB")
}
