// Package inventory collects the inventory of a machine: system, hardware, network, storage, packages, services, users, listening ports,
// programs, the agent's environment, and properties that scripts in a folder print. It reads files; only the packages of rpm and the
// scripts need programs.
//
// In: a Machine, whose root folder is one fs.FS, so that tests collect from files of other machines. Out: entries of package
// internal/inventory. The package has no goroutines and no locks. Start reading at Machine.Collect.
package inventory
