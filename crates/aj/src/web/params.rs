//! What the address of a page says: filters, order, place. The same names everywhere.
