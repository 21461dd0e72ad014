// Package intent keeps the intent, which is everything that operators declare: it checks, stores, revises and audits
// resources, and enrols nodes.
//
// Store (store_interface.go) is the small interface to SQL; internal/store/intentdb implements it, and tests its
// promises on SQLite and PostgreSQL. Service (intent_service.go) consists of Resources, Nodes, Enrolment, Tombstones,
// AgentReports, Namespaces, Runs and Retention. All of them use one repository, which commits rows and then updates the
// indexes in memory. Sessions read these indexes and not the store. Start reading at Service; apply_resources.go shows
// one apply from top to bottom, and check_resource_references.go shows all resources as that apply would leave them.
//
// Goroutines: WriteReports, ForgetAbsentNodes and EnforceRetention, each until its context ends. Locks: see repository.
package intent
