//! How the numbers of registers get names in the code of their users.

/// Public constants of registers by their DWARF numbers.
macro_rules! registers {
    ($($name:ident = $number:literal,)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, DWARF number ", stringify!($number), ".")]
            pub const $name: DwarfReg = DwarfReg::new($number);
        )*
    };
}
