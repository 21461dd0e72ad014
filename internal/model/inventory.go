package model

// InventoryEntry is one thing on a node, such as a package, with its fields in the order of its section: see package inventory.
type InventoryEntry struct {
	Section uint32
	Fields  []string // without empty ones at the end
}
