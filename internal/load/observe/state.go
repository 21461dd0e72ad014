package observe

// State is what the server's API answers when all values are sent and applied.
type State struct {
	Counts   [][]float64          // values of each item, by node and item
	Sums     [][]float64          // their sums
	Raw      map[int][][]float64  // the values of each item of some nodes, by time
	Problems map[Trigger]Problems // of the triggers that had any
	Unknown  int                  // series and problems that the plan does not have
}

// Trigger names the trigger of an item of a node.
type Trigger struct{ Node, Item int }

// Problems are those of one trigger.
type Problems struct {
	Opened int
	Open   bool
}
