package observe

// Runs holds the answers of the server's API about directives after all runs are applied.
type Runs struct {
	Nodes      []map[string]int       `json:"nodes"`             // components of each node by status
	Directives map[string]int         `json:"directives"`        // nodes that have each directive
	Machines   map[int]MachineHistory `json:"machines"`          // of some nodes
	Unknown    int                    `json:"unknown,omitempty"` // nodes that the plan does not have
}

// MachineHistory holds the history that the server has of one node.
type MachineHistory struct {
	Statuses map[string][]string `json:"statuses"` // of the components, by directive
	History  map[string][][]byte `json:"history"`  // codes of the runs that differ from the ones before them, by directive, oldest first
	Runs     int                 `json:"runs"`     // of the history
	Covered  int                 `json:"covered"`  // of these, runs that a valid signature covers
	Faults   []string            `json:"faults,omitempty"`
	Breaks   []string            `json:"breaks,omitempty"`
	Packages []string            `json:"packages,omitempty"` // versions of the inventory's entries, by name
}
