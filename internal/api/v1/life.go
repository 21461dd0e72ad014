package v1

// NodeRename gives a node another name.
type NodeRename struct {
	To          string `json:"to" minLength:"1" maxLength:"253"`
	DryRun      bool   `json:"dryRun,omitempty" doc:"Say what would happen and change nothing."`
	Message     string `json:"message,omitempty" maxLength:"1000" doc:"Why; recorded with the change."`
	MaxAffected int    `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse a change that lands on more nodes; 0: a fifth of all, at least 50."`
	Yes         bool   `json:"yes,omitempty" doc:"Go ahead however many nodes are affected."`
}
