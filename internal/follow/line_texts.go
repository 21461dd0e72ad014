package follow

import (
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Directory has the present names of nodes and checks (the planner).
type Directory interface {
	route.Directory
	// Revision changes whenever an answer of the others may.
	Revision() int64
	CheckChunk(id model.ChunkID) *model.CheckChunk
	// Shadow says that nothing is sent of a namespace's nodes.
	Shadow(namespace string) bool
	// Streams are the handlers that are told of every result.
	Streams() map[route.Name]*model.HandlerSpec
}

// words caches the texts of lines that depend on names only, for one revision of intent.
type words struct {
	directory Directory
	namespace string                    // of the handler
	picks     func(*route.Problem) bool // nil: all
	revision  int64
	nodes     map[model.NodeID]*nodeWords
	checks    map[model.ChunkID]*checkWords
}

// nodeWords is the part of lines that describes a node.
type nodeWords struct {
	name    string // for people: with its namespace where that is another
	text    []byte // "namespace":…,"node":…,"labels":…
	tells   bool   // the handler gets its results
	shadow  bool   // it would, but its namespace has notifications: shadow
	problem *route.Problem
}

type checkWords struct {
	id         model.CheckID
	name       route.Name
	text       []byte // ,"check":…
	severities [4]model.Severity
}

func newWords(d Directory, namespace string, only *model.Selector) (*words, error) {
	w := &words{directory: d, namespace: namespace}
	if only != nil {
		var err error
		if w.picks, err = route.MatchFunc(namespace, only); err != nil {
			return nil, err
		}
	}
	w.forget()
	return w, nil
}

func (w *words) forget() {
	w.revision = w.directory.Revision()
	w.nodes, w.checks = map[model.NodeID]*nodeWords{}, map[model.ChunkID]*checkWords{}
}

// refresh empties the cache when intent changed.
func (w *words) refresh() {
	if w.directory.Revision() != w.revision {
		w.forget()
	}
}

// node is nil for one that is gone.
func (w *words) node(id model.NodeID) *nodeWords {
	if n, ok := w.nodes[id]; ok {
		return n
	}
	var n *nodeWords
	if ns, name, ok := w.directory.NodeName(id); ok {
		n = &nodeWords{name: name}
		if ns != w.namespace {
			n.name = ns + "/" + name
		}
		n.text = appendText(append(n.text, `"namespace":`...), ns)
		n.text = appendText(append(n.text, `,"node":`...), name)
		if labels := w.directory.NodeLabels(id); len(labels) > 0 {
			n.text = appendMap(append(n.text, `,"labels":`...), labels)
		}
		ours := ns == w.namespace || w.namespace == model.SharedNamespaceName
		n.shadow = ours && w.directory.Shadow(ns)
		n.tells = ours && !n.shadow
	}
	w.nodes[id] = n
	return n
}

// check is nil for a definition that nobody knows any more.
func (w *words) check(id model.ChunkID) *checkWords {
	if c, ok := w.checks[id]; ok {
		return c
	}
	var c *checkWords
	if chunk := w.directory.CheckChunk(id); chunk != nil {
		c = &checkWords{id: chunk.Unit, severities: chunk.Severities}
		ns, name, ok := w.directory.SourceName(model.CheckSource(chunk.Unit))
		if !ok {
			name = chunk.Name // deleted since
		}
		c.name = route.Name{Namespace: ns, Name: name}
		c.text = appendText(append(c.text, `,"check":`...), name)
	}
	w.checks[id] = c
	return c
}

// chosen says whether the handler is told of a result.
func (w *words) chosen(r *result) bool {
	if !r.node.tells || w.picks == nil {
		return r.node.tells
	}
	if r.node.problem == nil {
		r.node.problem = route.Describe(w.directory, r.id, model.CheckSource(r.check.id), r.status, 0)
	}
	p := r.node.problem
	p.Source.Name, p.Status, p.Severity = r.check.name, r.status, r.check.severities[r.status&3]
	return w.picks(p)
}

func appendMap(dst []byte, m map[string]string) []byte {
	dst = append(dst, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, key)
		dst = appendText(append(dst, ':'), m[key])
	}
	return append(dst, '}')
}
