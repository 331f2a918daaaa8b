//! rmcp as documented, with the system's allocator.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    bench_rmcp::run_default()
}
