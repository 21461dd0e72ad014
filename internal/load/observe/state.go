package observe

import (
	"fmt"
)

// State holds the answers of the server's API after all values are applied.
type State struct {
	Counts   [][]float64          `json:"counts"`             // values of each item, by node and item
	Sums     [][]float64          `json:"sums"`               // their sums
	Raw      map[int][][]float64  `json:"raw,omitempty"`      // the values of each item of some nodes, by time
	Problems map[Trigger]Problems `json:"problems,omitempty"` // of the triggers that had any
	Unknown  int                  `json:"unknown,omitempty"`  // series and problems that the plan does not have

	SeriesLimit string `json:"seriesLimit,omitempty"` // why the server refused series of the namespace; empty: it refused none
}

// Trigger names the trigger of an item of a node.
type Trigger struct{ Node, Item int }

// MarshalText returns node and item with a slash between them.
func (t Trigger) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d/%d", t.Node, t.Item), nil }

// UnmarshalText reads the text that MarshalText returns.
func (t *Trigger) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%d/%d", &t.Node, &t.Item); err != nil {
		return fmt.Errorf("read a trigger %q: %w", text, err)
	}
	return nil
}

// Problems counts the problems of one trigger.
type Problems struct {
	Opened int  `json:"opened"`
	Open   bool `json:"open,omitempty"`
}
