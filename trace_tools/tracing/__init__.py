"""Trace a lecture: insert probes, run processes, and merge their journals into a trace."""
