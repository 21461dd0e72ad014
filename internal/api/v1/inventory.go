package v1

import "time"

// Inventory is the whole inventory of a node, or the part that a request selected.
type Inventory struct {
	Namespace string    `json:"namespace"`
	Node      string    `json:"node"`
	Received  time.Time `json:"received" doc:"When the last change arrived."`
	Changed   time.Time `json:"changed" doc:"When something but ports and processes changed last."`
	// Stale says that a change was lost on the way; the agent repairs that with its next session.
	Stale    bool               `json:"stale,omitempty"`
	Sections []InventorySection `json:"sections"`
	Items    []InventoryEntry   `json:"items" doc:"Entries by section and name."`
	Changes  []InventoryChange  `json:"changes,omitempty" doc:"With since: the changes, oldest first."`
}

// InventorySection is a section of an inventory with the number of its entries.
type InventorySection struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
}

// InventoryEntry is one entry of a node's inventory, such as an installed package.
type InventoryEntry struct {
	Section string            `json:"section"`
	Name    string            `json:"name"`
	Fields  map[string]string `json:"fields" doc:"By name; the name is one of them."`
}

// InventoryChange is one change in a node's inventory, such as an updated package. Without Before the entry was
// added, and without After it was removed.
type InventoryChange struct {
	At     time.Time       `json:"at"`
	Before *InventoryEntry `json:"before,omitempty"`
	After  *InventoryEntry `json:"after,omitempty"`
}
