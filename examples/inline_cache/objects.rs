//! The objects of the example: a shape, and fields whose order the shape decides.

/// An object of the example's language.
#[repr(C)]
pub(crate) struct Object {
    pub(crate) header: u64,
    pub(crate) shape: u32,
    pub(crate) flags: u32,
    pub(crate) fields: [u64; 4],
}

/// Where a compiled guard finds the shape, in bytes.
pub(crate) const SHAPE_OFFSET: i32 = std::mem::offset_of!(Object, shape) as i32;

/// The shape of objects whose property is computed.
const COMPUTED: u32 = 0x40;

impl Object {
    fn new(shape: u32, value: u64) -> Self {
        let mut object = Self {
            header: 0,
            shape,
            flags: 0,
            fields: [value, 0, 0, 0],
        };
        if let Some(field) = object.field() {
            object.fields = [u64::MAX; 4];
            object.fields[field] = value;
        }
        object
    }

    fn field(&self) -> Option<usize> {
        match self.shape {
            0x17 => Some(1),
            0x23 => Some(3),
            0x31 => Some(2),
            _ => None,
        }
    }

    /// The offset of the property in bytes; `None` if it is not stored.
    pub(crate) fn property_offset(&self) -> Option<i32> {
        let field = self.field()?;
        Some((std::mem::offset_of!(Object, fields) + field * 8) as i32)
    }
}

/// The property, by way of the shape: what the cache is to be faster than.
pub(crate) fn lookup(object: &Object) -> u64 {
    match object.field() {
        Some(field) => object.fields[field],
        None => object.fields[0] * 2,
    }
}

/// A thousand objects of these shapes in turn.
pub(crate) fn of_shapes(shapes: &[u32]) -> Vec<Object> {
    (0..1000)
        .map(|number| Object::new(shapes[number % shapes.len()], number as u64 * 3))
        .collect()
}

/// The same, with one in the middle whose property is computed.
pub(crate) fn with_computed(shapes: &[u32]) -> Vec<Object> {
    let mut objects = of_shapes(shapes);
    objects[500] = Object::new(COMPUTED, 21);
    objects
}
