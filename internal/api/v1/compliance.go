package v1

import (
	"cmp"
	"strings"
	"time"
)

// Compliance is the state of one policy directive on one node
type Compliance struct {
	Namespace  string         `json:"namespace"` // of the node
	Node       string         `json:"node"`
	Directive  string         `json:"directive"` // NAME, or NAMESPACE/NAME of another namespace than the node's
	Technique  string         `json:"technique"` // NAMESPACE/NAME
	Mode       string         `json:"mode" enum:"audit,enforce" doc:"Of the last run; before the first one, of the directive."`
	Status     string         `json:"status" doc:"The worst status of its components: not applicable, compliant, success, repaired, pending, no report, missing, non-compliant, could not check, error or unexpected; waived: it does not comply and a Waiver covers it; overridden: another directive of the technique runs in its place."`
	Percent    string         `json:"percent,omitempty" doc:"Compliant components of those that are neither pending nor waived, with two digits; absent: there are none."`
	Counts     map[string]int `json:"counts" doc:"Components by status, by the modes of reporting of their blocks."`
	Run        time.Time      `json:"run,omitzero"`     // end of the last run
	Changed    time.Time      `json:"changed,omitzero"` // since when runs have reported these statuses
	DurationMs uint32         `json:"durationMs,omitempty"`
	Reason     string         `json:"reason,omitempty"` // why the last run does not count, ended early, or only audited
	// OverriddenBy is the directive of the same technique that runs in its place.
	OverriddenBy string             `json:"overriddenBy,omitempty"`
	Waivers      []ComplianceWaiver `json:"waivers,omitempty" doc:"Waivers that cover components of the directive on the node now."`
	Components   []ComponentStatus  `json:"components,omitempty" doc:"Only with details."`
	Blocks       []BlockCompliance  `json:"blocks,omitempty" doc:"Only with details. An outer block stands before its inner ones."`
}

// BlockCompliance is the compliance of a block (group of components) of a directive, counted by its reporting
// mode.
type BlockCompliance struct {
	Name      string         `json:"name"`
	Reporting string         `json:"reporting" doc:"weighted, worst-case-weighted-sum, worst-case-weighted-one, focus, focus-worst or disabled."`
	Percent   string         `json:"percent,omitempty" doc:"Absent: nothing counts."`
	Counts    map[string]int `json:"counts" doc:"Components by status, as they count."`
}

// ComplianceWaiver is a Waiver (a permitted exception) that covers components (checked parts) of a directive on
// a node.
type ComplianceWaiver struct {
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	Components []string  `json:"components,omitempty" doc:"Absent: all."`
	Reason     string    `json:"reason"`
	Owner      string    `json:"owner"`
	Expires    time.Time `json:"expires"`
}

// Text describes the Waiver (a permitted exception) in one line, without its expiry time.
func (w *ComplianceWaiver) Text() string {
	return w.Name + " covers " + cmp.Or(strings.Join(w.Components, ", "), "all components") + ", by " + w.Owner + ": " + w.Reason
}

// ComponentStatus is the compliance status of one component, a checked part of a directive, on a node.
type ComponentStatus struct {
	Name    string `json:"name"`
	Method  string `json:"method"`
	Mode    string `json:"mode" enum:"audit,enforce" doc:"Of its last run; without a run: as declared."`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	Waiver  string `json:"waiver,omitempty" doc:"Of a waived component: the Waiver that covers it."`
}

// ComplianceList is a list of compliance states, each of one policy directive on one node.
type ComplianceList struct {
	Items []Compliance `json:"items"`
	Next  string       `json:"next,omitempty"` // page token of the next page
}

// ComplianceFilter selects pairs of a policy directive and a node, for the list of compliance states. Empty
// fields select everything.
type ComplianceFilter struct {
	Namespace, Node, Directive, Policy, Status string
	DirectiveLabels                            string // selector of directives, such as cis=5.1.20
	Details                                    bool   // with components

	At time.Time // the last runs up to this time; zero: now
}

// ComplianceQuery selects the unit of a row, the directives and the time of a compliance report.
type ComplianceQuery struct {
	Namespace, By   string
	Directive       string    // by component: only components of this directive
	DirectiveLabels string    // selector of directives, such as cis=5.1.20
	At              time.Time // the last runs up to this time; zero: now
}

// ComplianceSum is the summed compliance of one policy, directive, component, node or group.
type ComplianceSum struct {
	Namespace   string         `json:"namespace,omitempty"`
	Name        string         `json:"name"`
	Component   string         `json:"component,omitempty" doc:"A component of the directive that name says; by component only."`
	Nodes       int            `json:"nodes"`
	Components  int            `json:"components"`
	Percent     string         `json:"percent,omitempty" doc:"Compliant components of all, without pending and waived ones."`
	NodePercent string         `json:"nodePercent,omitempty" doc:"Mean of the nodes' percentages: each node weighs the same. Not by component."`
	Counts      map[string]int `json:"counts" doc:"Components by status."`
}

// ComplianceReport is the compliance of a namespace or of the whole fleet, summed up
type ComplianceReport struct {
	By    string          `json:"by"`
	At    time.Time       `json:"at,omitzero"` // the past time of the runs
	Items []ComplianceSum `json:"items"`       // least compliant first
	More  int             `json:"more,omitempty" doc:"Rows that are left out, because a report by component has at most 10,000."`
	Total ComplianceSum   `json:"total"`
}

// ComplianceDays is the compliance of a namespace or of the whole fleet by day (UTC), oldest first.
type ComplianceDays struct {
	Items []ComplianceDay `json:"items"`
}

// ComplianceDay is the compliance at the end of a day, with numbers of components changed during the day.
type ComplianceDay struct {
	Day        string         `json:"day"`
	Components int            `json:"components"`
	Percent    string         `json:"percent,omitempty" doc:"Compliant components of all, without waived ones."`
	Counts     map[string]int `json:"counts" doc:"Components by status."`
	Drifted    int            `json:"drifted" doc:"Components that stopped being compliant under the same declaration and mode."`
	Repaired   int            `json:"repaired" doc:"Components that an agent repaired under the same declaration and mode."`
	Remediated int            `json:"remediated" doc:"Components that became compliant again."`
	// RemediationSeconds is the mean time from drift to remediation of the remediated components.
	RemediationSeconds float64 `json:"remediationSeconds,omitempty"`
	Intended           int     `json:"intended" doc:"Components that changed with their declaration or mode."`
}

// Evidence holds a node's signed history of policy directive runs, which an auditor can verify. muster report
// evidence verify checks it without a server.
type Evidence struct {
	Namespace    string               `json:"namespace"`
	Node         string               `json:"node"`
	ID           string               `json:"id"` // of the node, as its certificates name it
	Since        time.Time            `json:"since"`
	Until        time.Time            `json:"until"`
	CA           string               `json:"ca" doc:"Certificate of the server's CA (PEM)."`
	Certificates []string             `json:"certificates" doc:"Certificates of the node that signed runs (PEM)."`
	Definitions  []EvidenceDefinition `json:"definitions"`
	Entries      []EvidenceEntry      `json:"entries" doc:"In their order, from a checkpoint before since on."`
}

// EvidenceDefinition is the compiled form of a policy directive that some of the recorded runs applied.
type EvidenceDefinition struct {
	Hash      string `json:"hash" doc:"First half of the SHA-256 of its bytes, hexadecimal."`
	Directive string `json:"directive"`
	Bytes     []byte `json:"bytes" doc:"The definition as agents get it: message Definition of the protocol."`
}

// EvidenceEntry is one entry in a node's evidence, such as a directive run or a signature. It is a changed run,
// a signature, or the start of a chain of signed runs.
type EvidenceEntry struct {
	Run       *EvidenceRun       `json:"run,omitempty"`
	Signature *EvidenceSignature `json:"signature,omitempty"`
	Start     *EvidenceBegin     `json:"start,omitempty"`
}

// EvidenceRun is one recorded run of a policy directive on a node, as part of the evidence.
type EvidenceRun struct {
	Directive  string    `json:"directive"`
	At         time.Time `json:"at"`
	Definition string    `json:"definition,omitempty" doc:"Hash of the definition; absent: the directive left the node."`
	SignedMs   uint64    `json:"signedMs,omitempty" doc:"End of the run as the node signed it, Unix ms; absent: no signature covers the run."`
	Enforced   bool      `json:"enforced,omitempty"`
	Ended      bool      `json:"ended,omitempty" doc:"It ended before its last component."`
	Components int       `json:"components,omitempty"`
	Codes      []byte    `json:"codes,omitempty" doc:"Statuses of the components, 4 bits each, the first in the low half of the first byte."`
}

// EvidenceSignature is a signature by the node over its hash chain of directive runs.
type EvidenceSignature struct {
	Number      uint64 `json:"number" doc:"Runs of the chain, equal ones included."`
	SignedMs    uint64 `json:"signedMs" doc:"End of the last run, Unix ms."`
	Assignment  []byte `json:"assignment" doc:"Hash of the assignment in force."`
	Certificate []byte `json:"certificate" doc:"SHA-256 of the certificate (DER) that verifies it."`
	Signature   []byte `json:"signature" doc:"ECDSA on P-256: r and s, 32 bytes each."`
}

// EvidenceBegin is the evidence entry that starts a new hash chain of a node's signed directive runs.
type EvidenceBegin struct {
	Reason   string `json:"reason" doc:"Why no chain continues here; empty: one does."`
	Number   uint64 `json:"number" doc:"Of the run that follows; where a chain continues, of the run before."`
	SignedMs uint64 `json:"signedMs"`
	Link     []byte `json:"link" doc:"Hash of the last run before."`
}
