//! Which right each request needs. Written once, here; `docs/budgets.md` has the same table for people.
//!
//! `budgetbalances` and `budgetstatements` are not real objects. They exist so that a Role in a namespace can give
//! the right to read what concerns that namespace.

use gpushare_kube::access::Right;

fn of_namespace(resource: &'static str, namespace: &str) -> Right {
    Right {
        verb: "get",
        resource,
        subresource: None,
        namespace: Some(namespace.to_owned()),
        name: None,
    }
}

fn of_budgets(verb: &'static str, name: Option<&str>) -> Right {
    Right {
        verb,
        resource: "gpubudgets",
        subresource: None,
        namespace: None,
        name: name.map(str::to_owned),
    }
}

pub(super) fn read_balance(namespace: &str) -> Right {
    of_namespace("budgetbalances", namespace)
}

pub(super) fn read_statement(namespace: &str) -> Right {
    of_namespace("budgetstatements", namespace)
}

pub(super) fn list_budgets() -> Right {
    of_budgets("list", None)
}

pub(super) fn read_budget(name: &str) -> Right {
    of_budgets("get", Some(name))
}

pub(super) fn read_budget_statement(name: &str) -> Right {
    Right {
        subresource: Some("statement"),
        ..of_budgets("get", Some(name))
    }
}

pub(super) fn grant(name: &str) -> Right {
    of_budgets("grant", Some(name))
}

pub(super) fn export() -> Right {
    of_budgets("export", None)
}
