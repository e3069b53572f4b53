//! The table of access rules: a rule is its key.

use crate::authorizer::{PatternKind, Permission, Principal, ResourceKind, Rule, RuleOperation};
use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError, WriteTransaction};
use std::collections::BTreeSet;

type Key<'k> = (i8, &'k str, i8, &'k str, &'k str, i8, i8);
const RULES: TableDefinition<Key<'static>, ()> = TableDefinition::new("rules");

/// A rule as it lies in the table.
pub struct Row {
    kind: i8,
    name: String,
    pattern: i8,
    principal: String,
    host: String,
    operation: i8,
    permission: i8,
}

pub fn put(write: &WriteTransaction, rule: &Rule) -> Result<(), redb::Error> {
    let principal = rule.principal.to_string();
    write.open_table(RULES)?.insert(key(rule, &principal), ())?;
    Ok(())
}

pub fn remove(write: &WriteTransaction, rule: &Rule) -> Result<(), redb::Error> {
    let principal = rule.principal.to_string();
    write.open_table(RULES)?.remove(key(rule, &principal))?;
    Ok(())
}

fn key<'k>(rule: &'k Rule, principal: &'k str) -> Key<'k> {
    let (kind, pattern) = (rule.kind as i8, rule.pattern as i8);
    let (operation, permission) = (rule.operation.number(), rule.permission as i8);
    (kind, &rule.name, pattern, principal, &rule.host, operation, permission)
}

/// All rows. A store without rules need not have the table.
pub fn load(read: &ReadTransaction) -> Result<Vec<Row>, redb::Error> {
    let table = match read.open_table(RULES) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut rows = Vec::new();
    for entry in table.iter()? {
        let (key, _) = entry?;
        let (kind, name, pattern, principal, host, operation, permission) = key.value();
        let [name, principal, host] = [name, principal, host].map(str::to_owned);
        rows.push(Row { kind, name, pattern, principal, host, operation, permission });
    }
    Ok(rows)
}

/// What the rows mean.
///
/// # Errors
/// A row that was never written, in words: to leave a rule out could open what it closes.
pub fn read(rows: &[Row]) -> Result<BTreeSet<Rule>, String> {
    let one = |row: &Row| {
        Some(Rule {
            kind: ResourceKind::new(row.kind)?,
            name: row.name.as_str().into(),
            pattern: PatternKind::new(row.pattern)?,
            principal: Principal::parse(&row.principal)?,
            host: row.host.as_str().into(),
            operation: RuleOperation::new(row.operation)?,
            permission: Permission::new(row.permission)?,
        })
    };
    let unknown = |row: &Row| format!("an access rule about {:?} is none", row.name);
    rows.iter().map(|row| one(row).ok_or_else(|| unknown(row))).collect()
}
