package v1

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// ItemState is the current state of one item (a metric of a Template) on one node
type ItemState struct {
	Namespace string            `json:"namespace"`
	Node      string            `json:"node"`
	Template  string            `json:"template"` // NAME, or NAMESPACE/NAME of another namespace than the node's; empty: of a check
	Key       string            `json:"key"`
	Check     string            `json:"check,omitempty" doc:"Name of the check, if the item is a number in results of a check."`
	Labels    map[string]string `json:"labels,omitempty" doc:"Labels that the check gave to the number."`
	Bounds    []ItemBound       `json:"bounds,omitempty" doc:"Thresholds and range of a number in results of a check."`
	Type      string            `json:"type" enum:"float,unsigned,text,log,boolean"`
	Unit      string            `json:"unit,omitempty"`
	Interval  model.Interval    `json:"interval,omitempty"` // absent: neither the agent nor the server makes its values
	From      string            `json:"from,omitempty"`     // key of the master item
	Trapper   bool              `json:"trapper,omitempty"`  // others send its values
	Formula   string            `json:"formula,omitempty"`  // the server computes it
	Internal  bool              `json:"internal,omitempty"` // the server measures itself
	State     string            `json:"state" enum:"ok,unsupported,waiting,notCollected" doc:"waiting: no value came yet. notCollected: nobody collects the item, or its master."`
	Reason    string            `json:"reason,omitempty"` // of unsupported and notCollected
	Value     string            `json:"value,omitempty"`  // the last one, exact
	Text      string            `json:"text,omitempty"`   // the last one for people, with its unit
	At        time.Time         `json:"at,omitzero"`      // of the last value or failure
	Triggers  []ItemTrigger     `json:"triggers,omitempty"`
}

// ItemBound is a threshold or range limit that a check reported for one of its metric values.
type ItemBound struct {
	Kind  string    `json:"kind" enum:"warning,critical,unknown,min,max"`
	End   string    `json:"end,omitempty" enum:"min,max,inside_min,inside_max" doc:"Absent for the range. max: a larger number violates the threshold. min: a smaller number violates it. inside_min and inside_max: a number between both violates it."`
	Value float64   `json:"value"`
	At    time.Time `json:"at"` // of the result that had it
}

// ItemTrigger is the current state of a trigger (an alert condition of a Template) that reads an item
type ItemTrigger struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
	Problem    bool   `json:"problem"`
	Unknown    string `json:"unknown,omitempty"` // why it cannot be evaluated
}

// ItemList is a list of items (metrics of Templates) with their current state
type ItemList struct {
	Items []ItemState `json:"items"`
	Next  string      `json:"next,omitempty"` // page token of the next page
}

// TextValue is one text or log value of an item.
type TextValue struct {
	Namespace string    `json:"namespace"`
	Node      string    `json:"node"`
	Template  string    `json:"template,omitempty"` // absent: it is deleted
	Key       string    `json:"key"`
	At        time.Time `json:"at"`
	Text      string    `json:"text"`
}

// TextList is a list of text values of items, sorted by time.
type TextList struct {
	Items []TextValue `json:"items"`
	More  bool        `json:"more,omitempty" doc:"Older values match, too, or may."`
}

// TextFilter selects text and log values of items, such as by node, key and search words. Empty fields select
// everything.
type TextFilter struct {
	Namespace, Node, Key string
	Match, Contains      string // words, a part of the text
	Since, Until         time.Time
	Limit                int // the newest so many
	RowFilter
}

// ItemFilter selects items (metrics of Templates) by node, Template and key. Empty fields select everything.
type ItemFilter struct{ Namespace, Node, Template, Key, State string }
