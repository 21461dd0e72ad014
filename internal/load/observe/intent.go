package observe

// Intent is one change of intent, by the API. Times are ns since the start of the timetable.
type Intent struct {
	Entry    int     `json:"entry"` // of the scenario's intent
	Meant    int64   `json:"meant"`
	Answered int64   `json:"answered"`          // by the API
	Unasked  bool    `json:"unasked,omitempty"` // the run ended at Answered, and the API had not answered the changes before
	Away     bool    `json:"away,omitempty"`    // a fault had the server away then
	Agents   int     `json:"agents,omitempty"`  // concerned
	Held     []int64 `json:"held,omitempty"`    // when each of them held it
	Never    int     `json:"never,omitempty"`   // of them, those with a session that did not
}
