package v1

import "time"

// Pending is a machine that waits to be accepted: it asked to join without a token, or was a node
// that the server does not know any more.
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

// Returning is a former node that the server's data, an older copy, does not have.
type Returning struct {
	UID       string    `json:"uid"`
	Namespace string    `json:"namespace" doc:"As the machine says."`
	Certified time.Time `json:"certified" doc:"When its certificate was made."`
}

// PendingList is all machines that wait.
type PendingList struct {
	Items []Pending `json:"items"`
}

// PendingAccept accepts a machine.
type PendingAccept struct {
	Which     string            `json:"which" minLength:"1" maxLength:"253" doc:"The name it wants, or at least 8 digits of its key."`
	Name      string            `json:"name,omitempty" maxLength:"240" doc:"Of the node; default: what it wants."`
	Namespace string            `json:"namespace,omitempty" maxLength:"253"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// PendingReturning accepts all former nodes.
type PendingReturning struct {
	Groups []string          `json:"groups,omitempty" doc:"For all of them."`
	Labels map[string]string `json:"labels,omitempty"`
}

// Returned is the outcome of accepting former nodes.
type Returned struct {
	Items []Member      `json:"items"`
	Left  []NotAccepted `json:"left" doc:"Those that still wait."`
}

// NotAccepted is a machine that was not accepted.
type NotAccepted struct {
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

// Member is an accepted or refused machine. A refused one has no UID.
type Member struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	Key       string `json:"key"`
}

// Authority is the server's CA, by which a machine recognizes the server before it joins.
type Authority struct {
	Hash        string   `json:"hash" doc:"sha256: and 64 digits, for --ca-hash."`
	Certificate string   `json:"certificate" doc:"PEM, for --ca-file."`
	Addresses   []string `json:"addresses" doc:"Where agents find the server."`
}
