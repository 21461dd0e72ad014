package access

// Verb is the effect of an operation.
type Verb uint8

// Verbs, each of which takes the role of the same rank.
const (
	Read    Verb = iota + 1 // viewer
	Operate                 // operator
	Change                  // admin
)

// Scope is where an operation does it.
type Scope uint8

// Scopes.
const (
	// Public operations need no token.
	Public Scope = iota + 1
	// Anybody operations are about the caller alone, or show nothing that a namespace holds: every
	// person with a session or token may call them.
	Anybody
	// Cluster operations are about the server, or about all namespaces at once: the role itself
	// has to permit them, bindings do not.
	Cluster
	// Namespaced operations see the namespaces in which the subject may do this, and no others.
	Namespaced
)

// Need is the declaration of one operation of the API when it is registered. The zero value is no
// declaration.
type Need struct {
	Verb  Verb
	Kind  string // a kind of resources, or a singular noun: event, problem, queue
	Scope Scope
}

// On declares a verb on a kind, within the subject's namespaces.
func On(verb Verb, kind string) Need { return Need{verb, kind, Namespaced} }

// OnCluster declares a verb on a kind of the server.
func OnCluster(verb Verb, kind string) Need { return Need{verb, kind, Cluster} }

// ByAnybody declares an operation about the caller alone, or about nothing that a namespace holds.
func ByAnybody(kind string) Need { return Need{Read, kind, Anybody} }

// Open declares an operation that needs no token.
func Open(kind string) Need { return Need{Read, kind, Public} }

// Declared reports whether this is a declaration.
func (n Need) Declared() bool { return n.Verb != 0 && n.Kind != "" && n.Scope != 0 }
