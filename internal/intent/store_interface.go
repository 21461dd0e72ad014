package intent

import (
	"context"
	"time"
)

// Store stores everything that users declare as rows, with an audit record of each change. Each Commit is one
// transaction. Package internal/store/intentdb implements it on SQLite and PostgreSQL. Safe for concurrent use.
type Store interface {
	// Commit writes all rows or none, gives ids to new ones, records the changes and returns the new revision. Every
	// Put and Delete states the revision it expects of the row (Expect); a difference is a model.Conflict.
	Commit(ctx context.Context, by Actor, writes []Write) (CommitResult, error)
	// Get returns the row of a key; model.NotFound if the row does not exist.
	Get(ctx context.Context, key Key) (Row, error)
	// GetAll returns the existing rows of the keys, in any order, with one query for many keys.
	GetAll(ctx context.Context, keys []Key) ([]Row, error)
	// List returns at most q.Limit rows of a kind in key order, from behind the key q.After.
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
	// Identity returns the random number that the store got at its creation, and LastID the highest id that it has
	// given to any kind.
	Identity() uint64
	LastID() uint32
	// RecordIncarnation records the incarnation of the journal that the rows belong to from now on. With a new incarnation
	// ids and revisions continue above those that the journal has seen, and ids skip IDGap more numbers: the rows may be
	// an older copy or new, and agents may know ids that were given later.
	RecordIncarnation(ctx context.Context, incarnation uint64, seen JournaledRevision) error
	// Incarnation returns the incarnation of the last RecordIncarnation; zero: there was none.
	Incarnation(ctx context.Context) (incarnation uint64, err error)
	// Trouble returns the error of the last query; nil: it succeeded.
	Trouble() error
	Close() error
}

// JournaledRevision has the newest revision and the highest id of declared resources that the journal mentions.
// An older, restored database continues with higher numbers. Zero: the journal is new.
type JournaledRevision struct {
	Revision int64
	LastID   uint32
}

// IDGap is the number of ids that a restored copy of the store leaves unused for each kind.
const IDGap = 1_000_000

// Key identifies a database row by kind, namespace and name. A row is a resource or a record of the server. A kind
// with a capital is a kind of resources; a lower-case kind is internal to the server (user, token, session,
// definition, secret, …), and the record of changes keeps no body of its rows.
type Key struct {
	Kind      string
	Namespace string // empty for the kind Namespace and for internal kinds
	Name      string
}

// Row is one stored row of the database for declared resources. It is a resource or an internal record of the server.
// Body is JSON.
type Row struct {
	Key
	ID       uint32 // numeric, per kind, never used again
	Revision int64
	Created  time.Time
	Updated  time.Time
	Body     []byte
}

// Write is one change of a database row. A put has a Body, a delete has none.
type Write struct {
	Key
	Body []byte
	// From is the present name of a row that the write renames to Key.Name. The row keeps its id; no row may exist at
	// Key. Expect applies to the renamed row.
	From   string
	Expect int64  // revision that the row must have; 0: the row must not exist; -1: any
	Retire bool   // the change record calls the deletion a retirement
	By     *Actor // the author of this write, in a commit for several; nil: the committer
}

// CommitResult has the new revision after a database commit, and the rows as stored
type CommitResult struct {
	Revision int64
	Rows     []Row
}

// Actor is the author of a change, as recorded in the audit. It has user, address and reason.
type Actor struct {
	User    string // or "server", "agent:<uid>"
	Address string // remote address, or "local"
	Message string // the message given with -m
	Owner   string
	Maker   string `json:"-"` // maker of the token in use; empty: User. No answer shows it
}

// Change is the audit record of one database write.
type Change struct {
	Revision int64     `json:"revision"`
	Part     int       `json:"part"` // index of the write in its revision
	At       time.Time `json:"at"`
	Actor    Actor     `json:"actor"`
	Key      Key       `json:"key"`
	ID       uint32    `json:"id"`
	Op       string    `json:"op"`               // create, update, rename, delete, retire
	Was      string    `json:"was,omitempty"`    // the name before a rename
	Before   []byte    `json:"before,omitempty"` // JSON bodies of resources
	After    []byte    `json:"after,omitempty"`
}

// ChangeQuery selects audit records by kind, namespace, name and revision. Zero fields select everything.
type ChangeQuery struct {
	Kind, Namespace, Name string   // Name: also changes of rows that had this name before a rename
	Namespaces            []string // nil: all
	NotKinds              []string // excluded kinds
	Resources             bool     // kinds of resources only
	People                bool     // without changes of the server itself and of joining machines
	Revision              int64    // only changes before this revision, …
	Part                  int      // … or in this revision, before this part
	Limit                 int      // zero: all
	Bodies                bool     // return changes with Before and After
	OnlyDeletions         bool     // deletions and retirements only
	Since                 time.Time
}

// ListQuery selects database rows of one kind.
type ListQuery struct {
	Kind       string
	Namespace  string   // empty: all
	Namespaces []string // nil: all
	After      Key
	Limit      int // zero: all
}
