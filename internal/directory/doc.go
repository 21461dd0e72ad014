// Package directory is the read side of the planner: names and ids of nodes, groups and units, the
// labels of a node, the nodes of a unit, and the assignment of a node. Package plan writes it.
//
// A Directory holds one immutable snapshot behind an atomic pointer. Readers load the pointer and take
// no lock; a snapshot that a reader holds stays as it is. The planner changes a Draft and publishes it
// after a pass; publishing costs with the number of changed records (see Map). Subscribers then get one
// Change, the list of differences. Start reading at directory.go.
package directory
