package prep

import (
	"fmt"

	"github.com/antchfx/xmlquery"
	"github.com/antchfx/xpath"
)

// maxXPathSteps bounds the moves of one XPath evaluation through its document. The limit is seconds of processor time.
const maxXPathSteps = 100_000_000

// boundedNavigator walks an XML document for package xpath, and counts the visited nodes. It panics at the limit, and
// xmlPath.query returns the panic as an error.
type boundedNavigator struct {
	*xmlquery.NodeNavigator
	steps *int // of the evaluation, shared by all copies
}

// count adds visited nodes.
func (x *boundedNavigator) count(nodes int) {
	if *x.steps += nodes; *x.steps > maxXPathSteps {
		panic(fmt.Sprintf("the expression visits more than %d nodes of this document", maxXPathSteps))
	}
}

// Copy returns a navigator at the same node.
func (x *boundedNavigator) Copy() xpath.NodeNavigator {
	x.count(1)
	at := *x.NodeNavigator
	return &boundedNavigator{&at, x.steps}
}

// MoveTo moves to the node of another navigator.
func (x *boundedNavigator) MoveTo(other xpath.NodeNavigator) bool {
	x.count(1)
	to, ok := other.(*boundedNavigator)
	return ok && x.NodeNavigator.MoveTo(to.NodeNavigator)
}

// MoveToParent moves to the parent of the node.
func (x *boundedNavigator) MoveToParent() bool {
	x.count(1)
	return x.NodeNavigator.MoveToParent()
}

// MoveToChild moves to the first child of the node.
func (x *boundedNavigator) MoveToChild() bool {
	x.count(1)
	return x.NodeNavigator.MoveToChild()
}

// MoveToFirst moves to the first sibling of the node.
func (x *boundedNavigator) MoveToFirst() bool {
	for before := x.Current().PrevSibling; before != nil; before = before.PrevSibling {
		x.count(1)
	}
	return x.NodeNavigator.MoveToFirst()
}

// MoveToNext moves to the next sibling of the node.
func (x *boundedNavigator) MoveToNext() bool {
	x.count(1)
	return x.NodeNavigator.MoveToNext()
}

// MoveToPrevious moves to the previous sibling of the node.
func (x *boundedNavigator) MoveToPrevious() bool {
	x.count(1)
	return x.NodeNavigator.MoveToPrevious()
}

// Value returns the text of the node and its descendants.
func (x *boundedNavigator) Value() string {
	if x.NodeType() == xpath.ElementNode {
		x.countDescendants(x.Current())
	}
	return x.NodeNavigator.Value()
}

// String returns the text of the node and its descendants.
func (x *boundedNavigator) String() string { return x.Value() }

// countDescendants counts all nodes below a node.
func (x *boundedNavigator) countDescendants(n *xmlquery.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		x.count(1)
		x.countDescendants(c)
	}
}
