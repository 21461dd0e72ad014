package model

// InventoryEntry is one entry of a node's inventory, such as a package, with its fields. The section sets their
// order, see package inventory.
type InventoryEntry struct {
	Section uint32
	Fields  []string // without empty ones at the end
}

// RudderInventoryFact is the fact with the time of the last inventory that a node's Rudder agent sent (RFC 3339). Only nodes of
// Rudder have it.
const RudderInventoryFact = "rudderInventory"
