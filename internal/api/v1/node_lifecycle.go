package v1

import "time"

// NodeRename gives a node another name.
type NodeRename struct {
	To          string `json:"to" minLength:"1" maxLength:"253"`
	DryRun      bool   `json:"dryRun,omitempty" doc:"Say what would happen and change nothing."`
	Message     string `json:"message,omitempty" maxLength:"1000" doc:"Why; recorded with the change."`
	MaxAffected int    `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse a change that lands on more nodes; 0: a fifth of all, at least 50."`
	Yes         bool   `json:"yes,omitempty" doc:"Go ahead however many nodes are affected."`
}

// NodeReplace asks for a token by which another machine takes the place of a node's.
type NodeReplace struct {
	ExpiresIn int64  `json:"expiresInSeconds,omitempty" minimum:"0" maximum:"315360000" doc:"0: never."`
	Message   string `json:"message,omitempty" maxLength:"1000" doc:"Why; the machine before is told."`
}

// NodeRetire takes nodes out of service, all or none.
type NodeRetire struct {
	Nodes       []NodeRef `json:"nodes" minItems:"1" maxItems:"10000"`
	DryRun      bool      `json:"dryRun,omitempty" doc:"Say what would happen and change nothing."`
	Message     string    `json:"message,omitempty" maxLength:"1000" doc:"Why; recorded with the change, and told to the machines should they come back."`
	MaxAffected int       `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse a change that lands on more nodes; 0: a fifth of all, at least 50."`
	Yes         bool      `json:"yes,omitempty" doc:"Go ahead however many nodes are affected."`
}

// NodeRef names a node.
type NodeRef struct {
	Namespace string `json:"namespace,omitempty" maxLength:"253" doc:"Default: default."`
	Name      string `json:"name" maxLength:"253"`
}

// Tombstone is the record of a machine that is no node any more.
type Tombstone struct {
	ID        string    `json:"id" doc:"The immutable id of the node, or key: and the fingerprint of a machine's key."`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace,omitempty"`
	Why       string    `json:"why" enum:"retired,replaced,refused,forgotten,deleted"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until,omitzero" doc:"None: for good."`
}

// TombstoneList is a page of tombstones, the newest first.
type TombstoneList struct {
	Items []Tombstone `json:"items"`
	All   int         `json:"all" doc:"How many there are."`
}
