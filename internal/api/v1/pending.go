package v1

import "time"

// Pending is a machine that asked to join without a token, or that was a node which the
// server does not know any more, and waits for a person.
type Pending struct {
	Key       string            `json:"key" doc:"SHA-256 of its public key: what the machine shows, too."`
	Name      string            `json:"name" doc:"The name it wants."`
	Whence    string            `json:"whence" doc:"The address that it asked from."`
	MachineID string            `json:"machineId,omitempty"`
	Since     time.Time         `json:"since"`
	Asked     time.Time         `json:"asked" doc:"When it asked last."`
	Labels    map[string]string `json:"labels,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
	Groups    []string          `json:"groups,omitempty" doc:"That it wants to be in."`
	Returns   *Returning        `json:"returns,omitempty" doc:"The node that it was, by a certificate of this server."`
}

// Returning is a node that the server does not know any more: its data are an older copy.
type Returning struct {
	UID       string    `json:"uid"`
	Namespace string    `json:"namespace" doc:"As the machine says."`
	Certified time.Time `json:"certified" doc:"When its certificate was made."`
}

// PendingList is all that wait.
type PendingList struct {
	Items []Pending `json:"items"`
}

// PendingAccept lets a machine in.
type PendingAccept struct {
	Which     string            `json:"which" minLength:"1" maxLength:"253" doc:"The name it wants, or at least 8 digits of its key."`
	Name      string            `json:"name,omitempty" maxLength:"240" doc:"Of the node; default: what it wants."`
	Namespace string            `json:"namespace,omitempty" maxLength:"253"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// PendingReturning lets all machines in that were nodes.
type PendingReturning struct {
	Groups []string          `json:"groups,omitempty" doc:"For all of them."`
	Labels map[string]string `json:"labels,omitempty"`
}

// Returned is what became of them.
type Returned struct {
	Items []Member `json:"items"`
	Left  []Left   `json:"left" doc:"Those that still wait."`
}

// Left is a machine that was not let in.
type Left struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Why  string `json:"why"`
	Hint string `json:"hint,omitempty"`
}

// PendingRefuse refuses a machine for good.
type PendingRefuse struct {
	Which  string `json:"which" minLength:"1" maxLength:"253"`
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"What the machine is told."`
}

// Member is what became of it. UID is empty where it was refused.
type Member struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	Key       string `json:"key"`
}

// Authority is the server's CA, by which a machine knows the server before it joins.
type Authority struct {
	Hash        string   `json:"hash" doc:"sha256: and 64 digits, for --ca-hash."`
	Certificate string   `json:"certificate" doc:"PEM, for --ca-file."`
	Addresses   []string `json:"addresses" doc:"Where agents find the server."`
}
