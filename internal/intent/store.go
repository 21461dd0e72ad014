package intent

import (
	"context"
	"time"
)

// Store keeps rows and their changes. All of one Commit is one transaction.
// Implementations: internal/store/intentdb (SQLite and PostgreSQL). Safe for concurrent use.
type Store interface {
	// Commit writes all rows or none, gives ids to new ones, records the changes and returns the new revision. Every
	// Put and Delete states the revision it expects of the row (Expect); a difference is a model.Conflict.
	Commit(ctx context.Context, by Actor, writes []Write) (CommitResult, error)
	// Get returns a model.NotFound error where there is no such row.
	Get(ctx context.Context, key Key) (Row, error)
	// GetAll returns the rows of those keys that exist, in any order, with one query for many keys.
	GetAll(ctx context.Context, keys []Key) ([]Row, error)
	// List returns rows of a kind in key order, after the key After, at most Limit.
	List(ctx context.Context, q ListQuery) ([]Row, error)
	// Changes returns the changes after a revision, the oldest first; whole revisions only.
	Changes(ctx context.Context, after int64, limit int) ([]Change, error)
	// ChangesBefore returns recorded changes, the newest first, for people.
	ChangesBefore(ctx context.Context, q ChangeQuery) ([]Change, error)
	// ForgetChanges deletes recorded changes from before a time, the oldest first, at most limit of them, and returns
	// their number. Rows stay.
	ForgetChanges(ctx context.Context, before time.Time, limit int) (int, error)
	// Revision returns the newest revision.
	Revision(ctx context.Context) (int64, error)
	// BeginLife records the incarnation of the journal that the rows belong to from now on. With a new incarnation
	// ids skip IDGap numbers: the rows may be an older copy, and agents may know ids that were given later.
	BeginLife(ctx context.Context, incarnation uint64) error
	// Trouble returns the error of the last query; nil: it succeeded.
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

// Row is one stored resource or one of our own records. Body is JSON.
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
	// From moves the row of this name, of the same kind and namespace, to Key. The row keeps its id; no row may
	// exist at Key. Expect applies to the moved row.
	From   string
	Expect int64  // revision that the row must have; 0: the row must not exist; -1: any
	Retire bool   // of a Delete: record it as a retirement
	By     *Actor // the author of this write, in a commit for several; nil: the committer
}

// CommitResult is the outcome: the rows as written, in the order of the writes.
type CommitResult struct {
	Revision int64
	Rows     []Row
}

// Actor is the author of a change, with address and reason.
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
	Namespaces            []string // nil: all
	NotKinds              []string // excluded kinds
	Resources             bool     // kinds of resources only
	People                bool     // without changes of the server itself and of joining machines
	Revision              int64    // before this revision, …
	Part                  int      // … or in it, before this part
	Limit                 int      // zero: all
	Bodies                bool     // with Before and After
	Gone                  bool     // deletions and retirements only
	Since                 time.Time
}

// ListQuery selects rows of one kind.
type ListQuery struct {
	Kind       string
	Namespace  string   // empty: all
	Namespaces []string // nil: all
	After      Key
	Limit      int // zero: all
}
