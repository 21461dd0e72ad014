package intent

import (
	"context"
	"time"
)

// Store keeps rows and their changes. All of one Commit is one transaction.
// Implementations: internal/store/intentdb (SQLite and PostgreSQL). Safe for concurrent use.
type Store interface {
	// Commit writes all rows or none, gives ids to new ones, records the changes and
	// returns the new revision. Every Put and Delete states the revision it expects
	// of the row (Expect); a difference is a model.Conflict.
	Commit(ctx context.Context, by Actor, writes []Write) (CommitResult, error)
	// Get returns a model.NotFound error where there is no such row.
	Get(ctx context.Context, key Key) (Row, error)
	// GetAll returns the rows of those keys that exist, in any order, with one query for many keys.
	GetAll(ctx context.Context, keys []Key) ([]Row, error)
	// List returns rows of a kind in key order, after the key After, at most Limit.
	List(ctx context.Context, q ListQuery) ([]Row, error)
	// Changes returns what was recorded after a revision, oldest first.
	Changes(ctx context.Context, after int64, limit int) ([]Change, error)
	// ChangesBefore returns what was recorded, newest first: for people.
	ChangesBefore(ctx context.Context, q ChangeQuery) ([]Change, error)
	// ForgetChanges removes what was recorded before a time, oldest first, at most limit
	// changes, and says how many. Rows stay.
	ForgetChanges(ctx context.Context, before time.Time, limit int) (int, error)
	// Revision is the newest.
	Revision(ctx context.Context) (int64, error)
	// BeginLife says with which incarnation of the journal the rows are used from now
	// on. Where it is another than before, ids skip IDGap numbers: these rows may be an
	// older copy, and what was given after it was made is known to agents.
	BeginLife(ctx context.Context, incarnation uint64) error
	// Trouble says why the store did not answer when it was last asked; nil: it did.
	Trouble() error
	Close() error
}

// IDGap is how many ids of each kind a restored copy passes over.
const IDGap = 1_000_000

// Key names a row. Kinds with a capital are resources; lower-case kinds are ours
// (user, token, session, chunk, secret, …) and leave no body in the record of changes.
type Key struct {
	Kind      string
	Namespace string // empty for Namespace and for our own kinds
	Name      string
}

// Row is one stored thing. Body is JSON.
type Row struct {
	Key
	ID       uint32 // numeric, per kind, never used again
	Revision int64
	Created  time.Time
	Updated  time.Time
	Body     []byte
}

// Write is a Put (Body set) or a Delete (Body nil).
type Write struct {
	Key
	Body []byte
	// From moves the row of this name, of the same kind and namespace, to Key: it keeps
	// its id, and there must be no row at Key. Expect is of the row that moves.
	From   string
	Expect int64  // revision the row must have; 0: must not exist; -1: whatever
	Retire bool   // of a Delete: people took it out of service, and it is recorded so
	By     *Actor // who wrote this, where a commit is of several; nil: who commits
}

// CommitResult is the outcome: the rows as written, in the order of the writes.
type CommitResult struct {
	Revision int64
	Rows     []Row
}

// Actor says who changed something, whence and why.
type Actor struct {
	User   string // or "server", "agent:<uid>"
	Whence string // remote address, or "local"
	Why    string // the message given with -m
	Owner  string
}

// Change is one recorded write.
type Change struct {
	Revision int64     `json:"revision"`
	Part     int       `json:"part"` // its place within the revision
	At       time.Time `json:"at"`
	Who      Actor     `json:"who"`
	Key      Key       `json:"key"`
	ID       uint32    `json:"id"`
	Op       string    `json:"op"`               // create, update, rename, delete, retire
	Was      string    `json:"was,omitempty"`    // the name before a rename
	Before   []byte    `json:"before,omitempty"` // JSON bodies of resources
	After    []byte    `json:"after,omitempty"`
}

// ChangeQuery selects changes. Zero fields select everything.
type ChangeQuery struct {
	Kind, Namespace, Name string   // Name: also of those that had it before a rename
	Namespaces            []string // only of these; nil: of all
	NotKinds              []string // these are left out
	Resources             bool     // kinds of resources only
	People                bool     // not what the server did by itself, nor machines that joined
	Revision              int64    // before this revision, …
	Part                  int      // … or in it, before this part
	Limit                 int      // zero: all
	Bodies                bool     // Before and After are wanted
	Gone                  bool     // only what took something away: delete and retire
	Since                 time.Time
}

// ListQuery selects rows of one kind.
type ListQuery struct {
	Kind       string
	Namespace  string   // empty: all
	Namespaces []string // only of these; nil: of all
	After      Key
	Limit      int // zero: all
}
