package directory

import (
	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Reader is the part of the Directory that people ask through the API. Names of deleted things are
// unknown. The caller owns returned lists and maps; nobody may change a specification.
type Reader interface {
	NamespaceByName(name string) (model.NamespaceID, bool)
	NamespaceName(id model.NamespaceID) (string, bool)
	NamespaceHandlers(namespace string) []string
	NamespaceLimits(name string) *model.Limits
	Shadow(namespace string) bool
	NodeByName(namespace, name string) (model.NodeID, bool)
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodeByUID(uid uuid.UUID) (model.NodeID, bool)
	NodeUID(id model.NodeID) uuid.UUID
	NodeProxy(id model.NodeID) bool
	NodeLabels(id model.NodeID) map[string]string
	NodeFacts(id model.NodeID) map[string]string
	NodeFact(id model.NodeID, name string) string
	NodeGroups(id model.NodeID) []string
	Nodes(namespace string) []model.NodeID
	NodesMatching(namespace string, s Selector) []model.NodeID
	GroupMembers(namespace, name string) []model.NodeID
	CheckByName(namespace, name string) (model.CheckID, bool)
	CheckName(id model.CheckID) (namespace, name string, ok bool)
	SourceName(s model.Source) (namespace, name string, ok bool)
	NodeUnits(node model.NodeID) []model.UnitID
	UnitNodes(unit model.UnitID) []model.NodeID
	HasUnit(node model.NodeID, unit model.UnitID) bool
	Assignment(node model.NodeID) (revision uint64, ok bool)
	Keepalive(node model.NodeID) *model.CheckChunk
	Handler(namespace, name string) (*model.HandlerSpec, bool)
	Secret(namespace, name string) (*model.SecretSpec, bool)
	Streams() map[route.Name]*model.HandlerSpec
	Dependencies(node model.NodeID, check model.CheckID) []route.Dependency
}

// PassiveCheck is a check for a source that brings results from outside.
type PassiveCheck struct {
	Chunk    *model.CheckChunk // judges its results now; nil: agents run this check
	Disabled bool              // its results are not wanted
	Source   string            // its label source, the program that it was made for; empty: any
}

// RoundRobin is a check with roundRobin: the server gives each run to one member.
type RoundRobin struct {
	Chunk     *model.CheckChunk
	Namespace string
	Members   *roaring.Bitmap // machines that may run it, by node id
	// Subjects are the proxy nodes that it is about, ascending. A check without proxy has the zero
	// ProxyNode alone: each run is about the node that runs it.
	Subjects []ProxyNode
}

// FilterContext is the part of a node and a check that only expressions imported from Sensu read.
// Nobody may change its maps.
type FilterContext struct {
	NodeAnnotations, CheckLabels, CheckAnnotations map[string]string
	Groups                                         []string // targets of the check
	Proxy                                          bool     // no agent runs on the node
}
