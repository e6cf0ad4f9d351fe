//! Controls and what they declare: actions, tables, muTables, instances.

use std::rc::Rc;

use crate::ast::{ControlDecl, EntryDecl, Expr, ExprKind, Local, MuTableDecl, TableDecl};
use crate::lexer::Kind;

use super::{Parsed, Parser};

const TABLE_PROPERTIES: [&str; 5] = ["key", "actions", "default_action", "entries", "size"];
const MU_TABLE_PROPERTIES: [&str; 5] = ["keys", "values", "type", "consistency", "size"];

impl Parser<'_> {
    pub(super) fn control_declaration(&mut self) -> Parsed<ControlDecl> {
        self.advance();
        let name = self.name()?;
        let parameters = self.parameters()?;
        self.no_constructor_parameters()?;
        let mut apply = None;
        let locals = self.block(|parser| {
            parser.annotations()?;
            if let Some(span) = parser.is_word("apply").then(|| parser.span()) {
                if apply.is_some() {
                    return parser.sink.error(span, "a control has one `apply`").refused();
                }
                parser.advance();
                apply = Some(parser.statements()?);
                return Ok(None);
            }
            parser.local().map(Some)
        })?;
        let Some(apply) = apply else {
            return self
                .sink
                .error(name.span, format!("the control `{}` does nothing", name.text))
                .help("add `apply { }`")
                .refused();
        };
        Ok(ControlDecl { name, parameters, locals: locals.into_iter().flatten().collect(), apply })
    }

    fn local(&mut self) -> Parsed<Local> {
        match self.text_at(0) {
            "action" => Ok(Local::Action(Rc::new(self.action()?))),
            "table" => Ok(Local::Table(Rc::new(self.table()?))),
            "muTable" => Ok(Local::MuTable(Rc::new(self.mu_table()?))),
            "const" => Ok(Local::Variable(self.variable()?)),
            _ => {
                let start = self.at;
                let _ = self.ty()?;
                let is_instance = self.is_at(Kind::OpenParen);
                self.at = start;
                if is_instance {
                    Ok(Local::Instance(self.instance()?))
                } else {
                    Ok(Local::Variable(self.variable()?))
                }
            }
        }
    }

    fn table(&mut self) -> Parsed<TableDecl> {
        self.advance();
        let name = self.name()?;
        let mut table = TableDecl {
            name,
            keys: Vec::new(),
            actions: Vec::new(),
            default_action: None,
            entries: None,
            size: None,
        };
        let mut seen: Vec<Rc<str>> = Vec::new();
        self.block(|parser| {
            parser.annotations()?;
            let is_const = parser.take_word("const");
            let property = parser.member_name()?;
            if seen.contains(&property.text) {
                return parser
                    .sink
                    .error(property.span, format!("`{}` is given twice", property.text))
                    .refused();
            }
            seen.push(property.text.clone());
            if !TABLE_PROPERTIES.contains(&&*property.text) {
                return parser.unknown_property(&property, "table", &TABLE_PROPERTIES);
            }
            parser.expect(Kind::Assign, "`=`")?;
            match &*property.text {
                "key" => table.keys = parser.keys()?,
                "actions" => {
                    table.actions = parser.block(|parser| {
                        parser.annotations()?;
                        let action = parser.expression()?;
                        parser.expect(Kind::Semicolon, "`;`")?;
                        Ok(action)
                    })?;
                    parser.take(Kind::Semicolon);
                }
                "entries" => {
                    table.entries = Some((parser.entries()?, is_const));
                    parser.take(Kind::Semicolon);
                }
                "default_action" => table.default_action = Some((parser.value()?, is_const)),
                _ => table.size = Some(parser.value()?),
            }
            Ok(())
        })?;
        self.take(Kind::Semicolon);
        Ok(table)
    }

    fn unknown_property<T>(&mut self, name: &crate::ast::Name, what: &str, known: &[&str]) -> Parsed<T> {
        const OF_P4: [&str; 6] =
            ["counters", "meters", "implementation", "support_timeout", "idle_timeout", "registers"];
        if OF_P4.contains(&&*name.text) {
            return self
                .sink
                .refuse(name.span, &format!("the property `{}` of a {what} is", name.text))
                .refused();
        }
        self.unknown_word(name, &format!("property of a {what}"), known)
    }

    /// An expression with its `;`.
    fn value(&mut self) -> Parsed<Expr> {
        let value = self.expression()?;
        self.expect(Kind::Semicolon, "`;`")?;
        Ok(value)
    }

    fn keys(&mut self) -> Parsed<Vec<(Expr, crate::ast::Name)>> {
        let keys = self.block(|parser| {
            let key = parser.expression()?;
            parser.expect(Kind::Colon, "`:` and how the key is matched")?;
            let kind = parser.name()?;
            parser.annotations()?;
            parser.expect(Kind::Semicolon, "`;`")?;
            Ok((key, kind))
        })?;
        self.take(Kind::Semicolon);
        Ok(keys)
    }

    fn entries(&mut self) -> Parsed<Vec<EntryDecl>> {
        self.block(|parser| {
            if parser.is_word("priority") || parser.is_word("const") {
                let span = parser.span();
                return parser
                    .sink
                    .refuse(span, "a priority or `const` of a single entry is")
                    .help("entries match in the order in which they stand")
                    .refused();
            }
            let start = parser.span();
            let keys = match parser.keyset()? {
                Expr { kind: ExprKind::List(keys), .. } => keys,
                key => vec![key],
            };
            parser.expect(Kind::Colon, "`:`")?;
            let action = parser.value()?;
            let span = start.to(action.span);
            Ok(EntryDecl { keys, action, span })
        })
    }

    /// RAPID Fig. 10.
    fn mu_table(&mut self) -> Parsed<MuTableDecl> {
        self.advance();
        let name = self.name()?;
        let mut table = MuTableDecl {
            name,
            keys: Vec::new(),
            values: Vec::new(),
            kind: None,
            consistency: None,
            size: None,
        };
        let mut seen: Vec<Rc<str>> = Vec::new();
        self.block(|parser| {
            let property = parser.member_name()?;
            if seen.contains(&property.text) {
                return parser
                    .sink
                    .error(property.span, format!("`{}` is given twice", property.text))
                    .refused();
            }
            seen.push(property.text.clone());
            if !MU_TABLE_PROPERTIES.contains(&&*property.text) {
                return parser.unknown_word(&property, "property of a muTable", &MU_TABLE_PROPERTIES);
            }
            parser.expect(Kind::Assign, "`=`")?;
            match &*property.text {
                "keys" => {
                    table.keys = parser.block(|parser| parser.value())?;
                    parser.take(Kind::Semicolon);
                }
                "values" => {
                    table.values = parser.fields()?;
                    parser.take(Kind::Semicolon);
                }
                "type" => {
                    table.kind = Some(parser.name()?);
                    parser.expect(Kind::Semicolon, "`;`")?;
                }
                "consistency" => {
                    let level = parser.name()?;
                    let bound = match parser.take(Kind::OpenParen) {
                        true => {
                            let bound = parser.expression()?;
                            parser.expect(Kind::CloseParen, "`)`")?;
                            Some(bound)
                        }
                        false => None,
                    };
                    table.consistency = Some((level, bound));
                    parser.expect(Kind::Semicolon, "`;`")?;
                }
                _ => table.size = Some(parser.value()?),
            }
            Ok(())
        })?;
        self.take(Kind::Semicolon);
        Ok(table)
    }
}
