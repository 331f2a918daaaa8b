//! ZCP with the system's allocator.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    bench_zcp::run()
}
