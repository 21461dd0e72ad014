package prep

import (
	"fmt"

	"github.com/antchfx/xmlquery"
	"github.com/antchfx/xpath"
)

// maxXPathSteps bounds the moves of one XPath evaluation through its document. The limit is about half a second of processor time.
const maxXPathSteps = 20_000_000

// boundedNavigator walks an XML document for package xpath, and counts the visited nodes. It panics at the limit, and
// xmlPath.query returns the panic as an error.
type boundedNavigator struct {
	*xmlquery.NodeNavigator
	steps *int // of the evaluation, shared by all copies
}

// count adds to the number of visited XML nodes, and panics above the limit.
func (x *boundedNavigator) count(nodes int) {
	if *x.steps += nodes; *x.steps > maxXPathSteps {
		panic(fmt.Sprintf("the expression visits more than %d nodes of this document", maxXPathSteps))
	}
}

// Copy returns a new navigator at the same XML node.
func (x *boundedNavigator) Copy() xpath.NodeNavigator {
	x.count(1)
	at := *x.NodeNavigator
	return &boundedNavigator{&at, x.steps}
}

// MoveTo moves the navigator to the XML node of another navigator.
func (x *boundedNavigator) MoveTo(other xpath.NodeNavigator) bool {
	x.count(1)
	to, ok := other.(*boundedNavigator)
	return ok && x.NodeNavigator.MoveTo(to.NodeNavigator)
}

// MoveToParent moves the navigator to the parent of its XML node.
func (x *boundedNavigator) MoveToParent() bool {
	x.count(1)
	return x.NodeNavigator.MoveToParent()
}

// MoveToChild moves the navigator to the first child of its XML node.
func (x *boundedNavigator) MoveToChild() bool {
	x.count(1)
	return x.NodeNavigator.MoveToChild()
}

// MoveToFirst moves the navigator to the first sibling of its XML node.
func (x *boundedNavigator) MoveToFirst() bool {
	for before := x.Current().PrevSibling; before != nil; before = before.PrevSibling {
		x.count(1)
	}
	return x.NodeNavigator.MoveToFirst()
}

// MoveToNext moves the navigator to the next sibling of its XML node.
func (x *boundedNavigator) MoveToNext() bool {
	x.count(1)
	return x.NodeNavigator.MoveToNext()
}

// MoveToPrevious moves the navigator to the previous sibling of its XML node.
func (x *boundedNavigator) MoveToPrevious() bool {
	x.count(1)
	return x.NodeNavigator.MoveToPrevious()
}

// Value returns the text of the navigator's XML node and its descendants.
func (x *boundedNavigator) Value() string {
	if x.NodeType() == xpath.ElementNode {
		x.countDescendants(x.Current())
	}
	return x.NodeNavigator.Value()
}

// String returns the text of the navigator's XML node and its descendants.
func (x *boundedNavigator) String() string { return x.Value() }

// countDescendants counts all XML nodes below a given XML node as visited.
func (x *boundedNavigator) countDescendants(n *xmlquery.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		x.count(1)
		x.countDescendants(c)
	}
}
