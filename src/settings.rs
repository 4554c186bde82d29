//! Parameters of the server or session (GUCs). What belongs to one collection stands in its table `setting`.

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

static BUILD_MEMORY: GucSetting<i32> = GucSetting::<i32>::new(1 << 20);

/// Registers the parameters; called once when the library is loaded.
pub fn register() {
    GucRegistry::define_int_guc(
        c"graphrag.build_memory",
        c"Memory that a build function may use for vectors and graphs.",
        c"A build that needs more says so before it starts.",
        &BUILD_MEMORY,
        1 << 10,
        i32::MAX,
        GucContext::Userset,
        GucFlags::UNIT_KB,
    );
    crate::pg::reserve_prefix();
}

/// The budget of a build, in bytes.
pub fn build_memory() -> usize {
    BUILD_MEMORY.get() as usize * 1024
}
