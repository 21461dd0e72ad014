package v1

import "time"

// ValueLoad is the load of the server's pipeline that processes item values. It has counters of the stages, the
// time of the workers, and the costs of items, triggers and nodes.
type ValueLoad struct {
	At      time.Time     `json:"at"`
	Rate    float64       `json:"rate" doc:"Raw values per second within the last minute."`
	Stages  []ValueStage  `json:"stages" doc:"From the first to the last."`
	Workers []ValueWorker `json:"workers"`
	Costs   []ValueCost   `json:"costs" doc:"Within the last minute, by their time: at most 20 of each kind."`
}

// ValueStage counts the item values that passed one stage of processing since the server's start.
type ValueStage struct {
	Name  string `json:"name"`
	Total uint64 `json:"total"`
}

// ValueWorker is the load of one worker that processes item values.
type ValueWorker struct {
	Number      int     `json:"number"`
	BusySeconds float64 `json:"busySeconds" doc:"Since the start of the server."`
	Queued      int     `json:"queued" doc:"Commits that wait."`
}

// ValueCost is the CPU time that one item, preprocessing step, trigger or node costs the server. It is
// extrapolated from one value in 64.
type ValueCost struct {
	Kind      string  `json:"kind" enum:"item,step,trigger,node"`
	Namespace string  `json:"namespace"`
	Template  string  `json:"template,omitempty"`
	Name      string  `json:"name" doc:"Of a step: of its item, and its number."`
	Rate      float64 `json:"rate" doc:"Values or evaluations per second."`
	Seconds   float64 `json:"seconds" doc:"Seconds of CPU per second."`
}
