package observe

// Alerts holds the expected and the received alerts of a run. Times are ns since the start of the timetable.
type Alerts struct {
	End       int64     `json:"end"`
	States    []Alerted `json:"states,omitempty"` // of checks that fail, and of machines that stand still
	Strikes   []Strike  `json:"strikes,omitempty"`
	Again     uint64    `json:"again,omitempty"`     // alerts that came once more, with the same key
	Strangers int       `json:"strangers,omitempty"` // alerts of checks that nobody watches
	Stranger  string    `json:"stranger,omitempty"`  // the first of them
}

// Alerted is an event state with its expected and received alerts. Of a check, the acknowledged results tell, in order,
// which alerts had to come: each that ends a row of good ones opens a problem, each that ends a row of bad ones closes
// it. Of a machine, the strikes tell it.
type Alerted struct {
	Name    string `json:"name"` // node/check
	Machine bool   `json:"machine,omitempty"`
	Fails   bool   `json:"fails,omitempty"`   // a check that some fault lets fail
	Told    bool   `json:"told,omitempty"`    // a check that the scenario wants notified
	Gone    bool   `json:"gone,omitempty"`    // a fault left its machine dead
	Unclear bool   `json:"unclear,omitempty"` // a deadline judged in between: the results alone do not tell which alerts had to come
	Must    []Turn `json:"must,omitempty"`
	Came    []Turn `json:"came,omitempty"`
}

// Turn is the opening or the closing of a problem.
type Turn struct {
	At   int64 `json:"at"`
	Open bool  `json:"open,omitempty"`
}

// Strike is a fault with the states whose alerts it changes.
type Strike struct {
	Fault   int   `json:"fault"` // index among the faults of the report
	At      int64 `json:"at"`
	Until   int64 `json:"until,omitempty"`   // 0: until the end
	States  []int `json:"states"`            // indexes of Alerts.States
	Offline []int `json:"offline,omitempty"` // of these, machines that had no session when the fault struck: it is not to blame for the time since when they are silent
	Timeout int64 `json:"timeout,omitempty"` // of machines that stand still: they are missed after so long
	Unsure  bool  `json:"unsure,omitempty"`  // the server was away meanwhile: machines may be missed later
}
