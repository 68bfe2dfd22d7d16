//! Makes a flat map of a map of any version and what else is known.

use alloc::vec::Vec;

use crate::addr::{DwarfReg, Len};
use crate::arrays::{FIRST, FlatFrame, FrameRegister};
use crate::bytes::Endian;
use crate::error::{Error, Result};
use crate::location::{LiveOut, Location, LocationKind};
use crate::map::{FunctionRecord, StackMap};
use crate::record::Record;
use crate::version::{Dialect, StackSize};

/// What a flat map says of a function, beyond its address, stack size and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatFunction {
    /// The size of its code.
    pub size: Len,
    /// The register from which the offsets of [`registers`](Self::registers) count.
    pub base: DwarfReg,
    /// The base register is a frame pointer.
    pub has_frame_pointer: bool,
    /// Its frame grows by dynamic allocas: whatever its stack size is, it reads as unknown.
    pub has_variable_size: bool,
    /// It aligns its stack: whatever its stack size is, it reads as unknown.
    pub is_realigned: bool,
    /// The registers that it keeps for its caller and uses.
    pub registers: Vec<FrameRegister>,
}

impl FlatFunction {
    /// A function of that size with the stack pointer `base` for its base register, and nothing
    /// else.
    #[must_use]
    pub fn new(size: Len, base: DwarfReg) -> Self {
        Self {
            size,
            base,
            has_frame_pointer: false,
            has_variable_size: false,
            is_realigned: false,
            registers: Vec::new(),
        }
    }

    fn flags(&self, has_live_out_info: bool) -> u16 {
        u16::from(self.has_frame_pointer)
            | u16::from(self.has_variable_size) << 1
            | u16::from(self.is_realigned) << 2
            | u16::from(has_live_out_info) << 3
    }
}

impl From<FlatFrame<'_>> for FlatFunction {
    /// What a flat map said.
    fn from(frame: FlatFrame<'_>) -> Self {
        Self {
            size: frame.function_size(),
            base: frame.base(),
            has_frame_pointer: frame.has_frame_pointer(),
            has_variable_size: frame.has_variable_size(),
            is_realigned: frame.is_realigned(),
            registers: frame.registers().collect(),
        }
    }
}

/// What a flat map says of a record, beyond what every map says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlatRecord {
    /// How many bytes are reserved; 0 is not told.
    pub reserved: Len,
    /// Live-outs were looked for.
    pub has_live_out_info: bool,
}

impl From<&Record<'_>> for FlatRecord {
    /// What the record says; of a map that is not flat: nothing of reserved bytes, and that
    /// live-outs were looked for where there are some.
    fn from(record: &Record<'_>) -> Self {
        let listed = record.live_outs().len() > 0;
        Self {
            reserved: record.reserved().unwrap_or(Len::new(0)),
            has_live_out_info: record.has_live_out_info().unwrap_or(listed),
        }
    }
}

/// Writes flat maps.
///
/// ```
/// use llvm_stackmaps::addr::{DwarfReg, Len};
/// use llvm_stackmaps::flat::{Dialect, FlatFunction, FlatRecord, FlatWriter};
/// use llvm_stackmaps::{Endian, StackMaps};
///
/// # let section = {
/// #     let mut bytes = vec![3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
/// #     bytes.extend([0x1000_u64, 24, 1, 7, 0x10, 0].map(u64::to_le_bytes).concat());
/// #     bytes
/// # };
/// let maps = StackMaps::parse(&section, Endian::Little)?;
/// let mut table = Vec::new();
/// for map in maps.maps() {
///     let writer = FlatWriter::new(Dialect::Proposal);
///     table.extend(writer.write(
///         map,
///         |_function| FlatFunction::new(Len::new(64), DwarfReg::new(7)),
///         |record| FlatRecord { reserved: Len::new(13), ..FlatRecord::from(record) },
///     )?);
/// }
/// let read = StackMaps::parse(&table, Endian::Little)?;
/// let record = read.records().next().unwrap();
/// assert_eq!(record.id().get(), 7);
/// assert_eq!(record.reserved(), Some(Len::new(13)));
/// # Ok::<(), llvm_stackmaps::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlatWriter {
    dialect: Dialect,
}

impl FlatWriter {
    /// Writes maps of that dialect.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect }
    }

    /// The flat map with what is in `map`, in its byte order, and with what `function` and `record`
    /// tell of each. Its length is a multiple of 8: tables one after the other are a section.
    ///
    /// # Errors
    /// [`Error::FlatMapFunctionFits`] and [`Error::FlatMapRecordFits`] where something does not fit into its field,
    /// [`Error::StackMapTooLong`] where all of it takes 4 GiB, and [`Error::RecordsWithoutFunction`] of a map of version 1
    /// that has several functions.
    pub fn write(
        &self,
        map: &StackMap<'_>,
        mut function: impl FnMut(&FunctionRecord<'_>) -> FlatFunction,
        mut record: impl FnMut(&Record<'_>) -> FlatRecord,
    ) -> Result<Vec<u8>> {
        let mut parts = GrowingArrays::new(self.dialect, map.endian());
        let functions = map.functions().len();
        for of in map.functions() {
            let records = of
                .records()
                .or_else(|| (functions == 1).then(|| map.records()))
                .ok_or(Error::RecordsWithoutFunction {
                    functions: functions as u64,
                })?;
            let (first, told) = (parts.record_count, function(&of));
            let mut has_live_out_info = false;
            for one in records {
                let told = record(&one);
                has_live_out_info |= told.has_live_out_info;
                parts.record(&one, told)?;
            }
            parts.frame(&of, &told, first, has_live_out_info)?;
        }
        if functions == 0 && map.records().len() > 0 {
            return Err(Error::RecordsWithoutFunction { functions: 0 });
        }
        for constant in map.constants().iter() {
            parts.constants.u64(constant);
        }
        parts.join()
    }
}

/// The arrays, as they grow.
struct GrowingArrays {
    dialect: Dialect,
    constants: Out,
    frames: Out,
    registers: Out,
    records: Out,
    locations: Out,
    live_outs: Out,
    frame_count: u32,
    register_count: u64,
    record_count: u64,
    location_count: u64,
    live_out_count: u64,
}

impl GrowingArrays {
    fn new(dialect: Dialect, endian: Endian) -> Self {
        let out = || Out {
            bytes: Vec::new(),
            endian,
        };
        Self {
            dialect,
            constants: out(),
            frames: out(),
            registers: out(),
            records: out(),
            locations: out(),
            live_outs: out(),
            frame_count: 0,
            register_count: 0,
            record_count: 0,
            location_count: 0,
            live_out_count: 0,
        }
    }

    fn frame(
        &mut self,
        function: &FunctionRecord<'_>,
        told: &FlatFunction,
        first: u64,
        has_live_out_info: bool,
    ) -> Result<()> {
        let fits = |what, value: u64, limit: u64| match value <= limit {
            true => Ok(value),
            false => Err(Error::FlatMapFunctionFits {
                what,
                function: function.address(),
                value,
                limit,
            }),
        };
        let half = |what, value| Ok(fits(what, value, u16::MAX.into())? as u16);
        let stack_size = match function.stack_size() {
            StackSize::Unknown => u32::MAX,
            StackSize::Known(known) => fits("a stack size", known, u64::from(u32::MAX) - 1)? as u32,
        };
        let registers = told.registers.len() as u64;
        self.frames.u64(function.address());
        self.frames.u32(told.size.get());
        self.frames.u32(stack_size);
        self.frames.u16(told.flags(has_live_out_info));
        self.frames.u16(told.base.get());
        match self.dialect {
            Dialect::Proposal => {
                let number = half("a number of frame registers", registers)?;
                let index = match number {
                    0 => 0,
                    _ => half("a number of frame registers before", self.register_count)?,
                };
                self.frames.u16(number);
                self.frames.u16(index);
            }
            Dialect::Fork => _ = fits("a number of frame registers", registers, 0)?,
        }
        let number = half("a number of records", self.record_count - first)?;
        let index = match number {
            0 => 0,
            _ => half("a number of records before", first)?,
        };
        self.frames.pair(self.dialect, number, index);
        self.frames.pad(8);
        for register in &told.registers {
            self.registers.u16(register.reg.get());
            self.registers.u16(register.offset as u16);
            self.registers.u8(register.size);
            self.registers.u8(register.is_spilled.into());
            self.registers.u16(0);
        }
        self.register_count += registers;
        self.frame_count = self.frame_count.saturating_add(1);
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, told: FlatRecord) -> Result<()> {
        let fits = |what, value: u64, limit: u64| match value <= limit {
            true => Ok(value),
            false => Err(Error::FlatMapRecordFits {
                what,
                id: record.id(),
                offset: record.offset(),
                value,
                limit,
            }),
        };
        let index = |what, count: usize, index| match count {
            0 => Ok(0),
            _ => fits(what, index, u16::MAX.into()).map(|index| index as u16),
        };
        let (locations, live_outs) = (record.locations(), record.live_outs());
        let location = index(
            "a number of locations before",
            locations.len(),
            self.location_count,
        )?;
        let live_out = index(
            "a number of live-outs before",
            live_outs.len(),
            self.live_out_count,
        )?;
        let reserved = fits("a reserved length", told.reserved.get().into(), u8::MAX.into())?;
        self.records.u64(record.id().get());
        self.records.u32(record.offset().get());
        self.records.u8(reserved as u8);
        self.records.u8(told.has_live_out_info.into());
        // Records count both in 16 bits, too.
        self.records.pair(self.dialect, locations.len() as u16, location);
        self.records.pair(self.dialect, live_outs.len() as u16, live_out);
        self.records.pad(8);
        self.record_count += 1;
        self.location_count += locations.len() as u64;
        self.live_out_count += live_outs.len() as u64;
        for location in locations {
            let size = fits("a location's size", location.size.into(), u8::MAX.into())?;
            self.locations.location(location, size as u8);
        }
        live_outs.for_each(|live_out| self.live_outs.live_out(live_out));
        Ok(())
    }

    /// The header and the arrays behind it.
    fn join(self) -> Result<Vec<u8>> {
        let Self {
            constants,
            frames,
            registers,
            records,
            locations,
            live_outs,
            ..
        } = self;
        let mut all = Out {
            bytes: Vec::new(),
            endian: constants.endian,
        };
        all.u8(2);
        all.u8(0);
        all.u16(0);
        if self.dialect == Dialect::Fork {
            all.u32(self.frame_count);
        }
        let arrays = [&constants, &frames, &registers, &records, &locations, &live_outs];
        let mut at = FIRST;
        for (number, array) in arrays.iter().enumerate() {
            // The fork has no frame registers.
            if number != 2 || self.dialect == Dialect::Proposal {
                all.u32(u32::try_from(at).map_err(|_| Error::StackMapTooLong { len: at as u64 })?);
            }
            at = at.saturating_add(array.bytes.len());
        }
        all.pad(8);
        for array in arrays {
            all.bytes.extend_from_slice(&array.bytes);
        }
        all.pad(8);
        Ok(all.bytes)
    }
}

struct Out {
    bytes: Vec<u8>,
    endian: Endian,
}

macro_rules! write {
    ($($name:ident: $int:ty),*) => {
        $(fn $name(&mut self, value: $int) {
            match self.endian {
                Endian::Little => self.bytes.extend_from_slice(&value.to_le_bytes()),
                Endian::Big => self.bytes.extend_from_slice(&value.to_be_bytes()),
            }
        })*
    };
}

impl Out {
    write!(u8: u8, u16: u16, u32: u32, u64: u64);

    fn pad(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    /// A number and the index of the first.
    fn pair(&mut self, dialect: Dialect, number: u16, index: u16) {
        let (first, second) = match dialect {
            Dialect::Proposal => (number, index),
            Dialect::Fork => (index, number),
        };
        self.u16(first);
        self.u16(second);
    }

    fn location(&mut self, location: Location, size: u8) {
        let (kind, reg, value) = match location.kind {
            LocationKind::Register { reg, bit_offset } => (1, reg.get(), bit_offset as u32),
            LocationKind::Direct { reg, offset } => (2, reg.get(), offset as u32),
            LocationKind::Indirect { reg, offset } => (3, reg.get(), offset as u32),
            LocationKind::Constant { value } => (4, 0, value as u32),
            LocationKind::ConstantIndex { index } => (5, 0, index),
        };
        self.u8(kind);
        self.u8(size);
        self.u16(reg);
        self.u32(value);
    }

    fn live_out(&mut self, live_out: LiveOut) {
        self.u16(live_out.reg.get());
        self.u8(0);
        self.u8(live_out.size);
    }
}
