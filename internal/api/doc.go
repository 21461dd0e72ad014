// Package api is the HTTP interface of the server: every operation under /api/v1, described by an OpenAPI document
// that is generated from the types in api/v1. This package is wiring; each subject is a sub-package:
//
//	op            registration of operations, errors, admission, streams, the OpenAPI document
//	view          the state as the caller of one request may see it; namespaces, names, page tokens
//	list          filter and page of every list: selector, where, limit, after, period
//	notification  routes of a problem, and the holds that keep notifications back now
//	events, problems, nodes, resources, explain, reports, routing, runs, people, server, items, compliance, rollouts,
//	inventory     the subjects
//	inbound       alerts and callbacks of other systems
//	admin         the operator's listener
//
// A request passes log and metrics, authentication (api.go), admission, the
// access check of its operation (op.Handle), and one method of its subject.
//
// A new subject is a package like routing: Options with the interfaces that it alone
// uses; a request type that embeds op.Request; and Register, which names each operation with the access.Need that it
// declares. Its methods reach stores through the View of the request alone, so that a caller bound to namespaces sees
// no others. A new store is added to view.Stores, with its wrapper for bound callers. Lists use package list. Then
// Register is called in newHandler.
//
// Goroutines and locks belong to the subjects.
//
// Start reading at newHandler.
package api
