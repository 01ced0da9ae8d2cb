//! A tile of a product with Intel's AMX: an instruction multiplies 16 rows of 16 pairs of bfloat16 numbers with 16 columns.

use std::{arch::asm, marker::PhantomData};

use super::{COLUMNS, pack::BLOCK};

/// Rows of a tile: two registers of 16.
pub(super) const ROWS: usize = 32;

/// Returns true if this processor has the instructions and the system permits this process to use them.
///
/// A process requests the registers once, because they add 8 KiB to the state that the system saves for each thread.
#[cfg(target_os = "linux")]
pub(super) fn available() -> bool {
    use std::arch::x86_64::__cpuid_count;

    /// Function of `arch_prctl` that requests a part of the processor's state.
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    /// The part of the state that the tiles are.
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    /// bfloat16 products and tiles, in `edx` of leaf 7.
    const FEATURES: u32 = 1 << 22 | 1 << 24;
    if __cpuid_count(0, 0).eax < 7 || __cpuid_count(7, 0).edx & FEATURES != FEATURES {
        return false;
    }
    #[expect(unsafe_code, reason = "the system call has no safe form")]
    // SAFETY: the call takes two numbers and changes nothing but this permission.
    unsafe {
        libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0
    }
}

/// Other systems need no request for the registers.
#[cfg(not(target_os = "linux"))]
pub(super) fn available() -> bool {
    false
}

/// Shapes of the registers, as the instruction reads them.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The tile registers of this thread, each of 16 rows of 64 bytes, until this is dropped. It stays on its thread.
pub(super) struct Registers(PhantomData<*const ()>);

impl Registers {
    /// Configures them.
    ///
    /// # Safety
    /// [`available`] has returned true.
    #[expect(unsafe_code, reason = "the compiler has no stable intrinsics for these instructions")]
    pub(super) unsafe fn configure() -> Self {
        static ALL: Configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        // SAFETY: the instruction reads the 64 bytes of the configuration, which is valid.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const ALL, options(nostack, readonly, preserves_flags));
        }
        Self(PhantomData)
    }

    /// Writes `left * right`, or adds it, to [`ROWS`] rows of [`COLUMNS`] numbers that begin `stride` numbers apart.
    ///
    /// # Safety
    /// The numbers of the tile may be read and written, and nothing else does so meanwhile.
    #[expect(unsafe_code, reason = "as above")]
    #[expect(clippy::unused_self, reason = "a value of the type shows that the registers are configured")]
    pub(super) unsafe fn tile(&self, left: &[u32], right: &[u32], to: *mut f32, stride: usize, add: bool) {
        let blocks = right.len() / (COLUMNS * BLOCK);
        assert!(left.len() >= blocks * ROWS * BLOCK, "factors of different length");
        let stride = stride * size_of::<f32>();
        // SAFETY: the registers are configured. Each of `blocks` steps reads 2 KiB of both factors, which they have. The first
        // and the last instructions read and write the tile alone.
        unsafe {
            asm!(
                "test {add:e}, {add:e}",
                "jnz 2f",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "jmp 3f",
                "2:",
                "tileloadd tmm0, [{upper} + {stride}*1]",
                "tileloadd tmm1, [{upper} + {stride}*1 + 64]",
                "tileloadd tmm2, [{lower} + {stride}*1]",
                "tileloadd tmm3, [{lower} + {stride}*1 + 64]",
                "3:",
                "test {blocks}, {blocks}",
                "jz 5f",
                "4:",
                "tileloadd tmm4, [{left} + {left_stride}*1]",
                "tileloadd tmm6, [{right} + {right_stride}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{right} + {right_stride}*1 + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{left} + {left_stride}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {left}, 2048",
                "add {right}, 2048",
                "dec {blocks}",
                "jnz 4b",
                "5:",
                "tilestored [{upper} + {stride}*1], tmm0",
                "tilestored [{upper} + {stride}*1 + 64], tmm1",
                "tilestored [{lower} + {stride}*1], tmm2",
                "tilestored [{lower} + {stride}*1 + 64], tmm3",
                add = in(reg) u32::from(add),
                blocks = inout(reg) blocks => _,
                left = inout(reg) left.as_ptr() => _,
                right = inout(reg) right.as_ptr() => _,
                upper = in(reg) to,
                lower = in(reg) to.wrapping_byte_add(16 * stride),
                stride = in(reg) stride,
                left_stride = in(reg) 64_usize,
                right_stride = in(reg) 128_usize,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "as above")]
        // SAFETY: the registers were configured, and nothing uses them after this.
        unsafe {
            asm!("tilerelease", options(nostack, nomem, preserves_flags));
        }
    }
}
